"""The Django app of stock pools and the catalogue."""

from django.apps import AppConfig
from typing_extensions import override


class InventoryConfig(AppConfig):
    """Capacity that operators declare."""

    name = "inventory"
    verbose_name = "Inventory"

    @override
    def ready(self) -> None:
        """Register the kinds of operation of this app."""
        from inventory.operations import register_operations

        register_operations()
