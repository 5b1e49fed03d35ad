"""The platform's own app: management commands and start-up checks."""

from django.apps import AppConfig
from typing_extensions import override


class PlatformConfig(AppConfig):
    """Carries the commands that belong to no single app."""

    name = "gpuplatform"
    label = "platform"
    verbose_name = "Platform"

    @override
    def ready(self) -> None:
        """Load the Celery application, for processes that only send messages."""
        import gpuplatform.celery  # noqa: F401
