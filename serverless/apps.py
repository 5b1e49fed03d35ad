"""The Django app of functions and invocations."""

from django.apps import AppConfig
from typing_extensions import override


class ServerlessConfig(AppConfig):
    """Configuration of the app."""

    name = "serverless"
    verbose_name = "Serverless"

    @override
    def ready(self) -> None:
        """Register the kinds of operation of this app, and the use of its limited resources."""
        from gpuplatform.tenancy.quota import register_usage
        from serverless.operations import register_operations
        from serverless.selectors import serverless_used

        register_operations()
        register_usage(self.name, serverless_used)
