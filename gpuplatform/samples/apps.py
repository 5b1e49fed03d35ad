"""What is kept of the past so that pages can show it."""

from django.apps import AppConfig


class SamplesConfig(AppConfig):
    """Runs of the periodic work."""

    name = "gpuplatform.samples"
    label = "samples"
    verbose_name = "Samples"
