"""Django app configurations of the platform and of its admin."""

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig
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


class PlatformAdminConfig(AdminConfig):
    """Django's admin with the site of the platform as the default site."""

    default_site = "gpuplatform.adminkit.site.pages.PlatformAdminSite"
