"""The Django app of tenants, tokens and admin groups."""

from django.apps import AppConfig
from typing_extensions import override


class TenancyConfig(AppConfig):
    """Tenants, and the tokens that call on their behalf."""

    name = "gpuplatform.tenancy"
    label = "tenancy"
    verbose_name = "Access"

    @override
    def ready(self) -> None:
        """Register the security scheme of the OpenAPI document."""
        from gpuplatform.tenancy import openapi as _openapi  # noqa: F401 - registers itself
