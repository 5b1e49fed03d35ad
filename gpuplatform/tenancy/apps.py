"""Tenants."""

from django.apps import AppConfig


class TenancyConfig(AppConfig):
    """Who owns what."""

    name = "gpuplatform.tenancy"
    label = "tenancy"
    verbose_name = "Access"
