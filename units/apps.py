"""The Django app of GPU units."""

from django.apps import AppConfig
from typing_extensions import override


class UnitsConfig(AppConfig):
    """The app of GPU units: stock and active units."""

    name = "units"
    verbose_name = "GPU units"

    @override
    def ready(self) -> None:
        """Register the operation kinds of this app."""
        from units.operations import register_operations

        register_operations()
