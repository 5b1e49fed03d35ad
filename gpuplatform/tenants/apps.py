"""The Django app of the operations on tenants. The model is in `gpuplatform.tenancy`."""

from django.apps import AppConfig
from typing_extensions import override


class TenantsConfig(AppConfig):
    """Configuration of the app `tenants`, which has no models."""

    name = "gpuplatform.tenants"
    label = "tenants"
    verbose_name = "Tenants"

    @override
    def ready(self) -> None:
        """Register the kinds of operation on tenants."""
        from gpuplatform.tenants.operations import register_operations

        register_operations()
