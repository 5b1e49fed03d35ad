"""Inventory: stock pools."""

from django.apps import AppConfig
from typing_extensions import override


class InventoryConfig(AppConfig):
    """The capacity that operators declare."""

    name = "inventory"
    verbose_name = "Inventory"

    @override
    def ready(self) -> None:
        """Make the kinds of operation of this app known."""
        from inventory.operations import register_operations

        register_operations()
