"""Tenants and who may call on their behalf."""

from django.apps import AppConfig
from typing_extensions import override


class TenancyConfig(AppConfig):
    """Who owns what."""

    name = "gpuplatform.tenancy"
    label = "tenancy"
    verbose_name = "Access"

    @override
    def ready(self) -> None:
        """Let the OpenAPI document know how callers are told."""
        from gpuplatform.tenancy import openapi as _openapi  # noqa: F401 - registers itself
