"""The Django app of GPU units: stock and active units."""

from django.apps import AppConfig
from typing_extensions import override


class UnitsConfig(AppConfig):
    """Stock, and the units that users run on its GPUs."""

    name = "units"
    verbose_name = "GPU units"

    @override
    def ready(self) -> None:
        """Register the kinds of operation of this app."""
        from units.operations import register_operations

        register_operations()
