"""The Django app of stock pools and the catalogue."""

from django.apps import AppConfig
from typing_extensions import override


class InventoryConfig(AppConfig):
    """The app of stock pools and the catalogue of GPU specs."""

    name = "inventory"
    verbose_name = "Inventory"

    @override
    def ready(self) -> None:
        """Register the operation kinds of this app."""
        from inventory.operations import register_operations

        register_operations()
