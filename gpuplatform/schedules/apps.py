"""The Django app of schedule records."""

from django.apps import AppConfig


class SchedulesConfig(AppConfig):
    """Configuration of the app `schedules`."""

    name = "gpuplatform.schedules"
    label = "schedules"
    verbose_name = "Schedules"
