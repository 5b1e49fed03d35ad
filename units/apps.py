"""GPU units: stock and units in use."""

from django.apps import AppConfig
from typing_extensions import override


class UnitsConfig(AppConfig):
    """Capacity reserved ahead, and what users run on it."""

    name = "units"
    verbose_name = "GPU units"

    @override
    def ready(self) -> None:
        """Make the kinds of operation of this app known."""
        from units.operations import register_operations

        register_operations()
