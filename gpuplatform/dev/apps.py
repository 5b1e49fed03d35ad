"""The Django app of development, with commands that an installation does not have."""

from django.apps import AppConfig


class DevelopmentConfig(AppConfig):
    """Carries the commands that run the platform, its servers and the simulated cluster."""

    name = "gpuplatform.dev"
    label = "development"
    verbose_name = "Development"
