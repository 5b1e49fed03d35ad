"""The Django app of the limits of tenants. It has no tables."""

from django.apps import AppConfig
from typing_extensions import override


class QuotasConfig(AppConfig):
    """Configuration of the app `quotas`."""

    name = "gpuplatform.quotas"
    label = "quotas"
    verbose_name = "Limits of tenants"

    @override
    def ready(self) -> None:
        """Register the operation kind of this app."""
        from gpuplatform.quotas.services import register_operations

        register_operations()
