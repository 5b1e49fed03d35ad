"""The Django app of GPU units."""

from django.apps import AppConfig
from typing_extensions import override


class UnitsConfig(AppConfig):
    """The app of GPU units: stock and active units."""

    name = "units"
    verbose_name = "GPU units"

    @override
    def ready(self) -> None:
        """Register the operation kinds of this app, and the use of its limited resources."""
        from gpuplatform.tenancy.quota import on_limits_changed, register_usage
        from units.gpu_usage import units_used
        from units.operations import register_operations
        from units.waiting import hint_tenant

        register_operations()
        register_usage(self.name, units_used)
        on_limits_changed(self.name, hint_tenant)
