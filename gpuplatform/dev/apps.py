"""The Django app with the development commands."""

from django.apps import AppConfig


class DevelopmentConfig(AppConfig):
    """The app whose commands run the platform, its servers and the simulated cluster."""

    name = "gpuplatform.dev"
    label = "development"
    verbose_name = "Development"
