"""Django app configurations of the platform and of its admin."""

from django.apps import AppConfig
from django.contrib.admin.apps import SimpleAdminConfig
from typing_extensions import override


class PlatformConfig(AppConfig):
    """The app of the management commands."""

    name = "gpuplatform"
    label = "platform"
    verbose_name = "Platform"

    @override
    def ready(self) -> None:
        """Load the Celery application and its hooks. All processes send messages."""
        import gpuplatform.celery
        import gpuplatform.processes.task_hooks
        import gpuplatform.processes.worker  # noqa: F401


class PlatformAdminConfig(SimpleAdminConfig):
    """Django's admin with the platform's site as the default one.

    `gpuplatform.urls` loads the admin modules, so that only the web process imports them.
    """

    default_site = "gpuplatform.adminkit.site.pages.PlatformAdminSite"
