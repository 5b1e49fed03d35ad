"""The app that owns the records of schedules."""

from django.apps import AppConfig


class SchedulesConfig(AppConfig):
    """Carries the record of what the platform wrote to each schedule."""

    name = "gpuplatform.schedules"
    label = "schedules"
    verbose_name = "Schedules"
