"""The Django app of tenants, tokens and admin groups."""

from django.apps import AppConfig
from typing_extensions import override


class TenancyConfig(AppConfig):
    """Configuration of the app `tenancy`."""

    name = "gpuplatform.tenancy"
    label = "tenancy"
    verbose_name = "Access"

    @override
    def ready(self) -> None:
        """Register the security scheme for the OpenAPI document, and the use of tokens."""
        from gpuplatform.tenancy import openapi as _openapi  # noqa: F401 - registers itself
        from gpuplatform.tenancy.quota import register_usage
        from gpuplatform.tenancy.services import tokens_used

        register_usage(self.label, tokens_used)
