"""The platform's own app: commands, the Celery application, the hooks of Celery's processes."""

from django.apps import AppConfig
from typing_extensions import override


class PlatformConfig(AppConfig):
    """Carries the commands that belong to no single app."""

    name = "gpuplatform"
    label = "platform"
    verbose_name = "Platform"

    @override
    def ready(self) -> None:
        """Load the Celery application and its hooks; all processes send messages."""
        import gpuplatform.celery
        import gpuplatform.processes.task_hooks
        import gpuplatform.processes.worker  # noqa: F401
