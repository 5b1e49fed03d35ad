"""The Django app of the usage ledger."""

from django.apps import AppConfig


class UsageConfig(AppConfig):
    """Configuration of the app `usage`."""

    name = "gpuplatform.usage"
    label = "usage"
    verbose_name = "Usage"
