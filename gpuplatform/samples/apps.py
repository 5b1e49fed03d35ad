"""The Django app of samples and of runs of periodic tasks."""

from django.apps import AppConfig


class SamplesConfig(AppConfig):
    """Configuration of the app `samples`."""

    name = "gpuplatform.samples"
    label = "samples"
    verbose_name = "Samples"
