"""The Django app of functions and invocations."""

from django.apps import AppConfig
from typing_extensions import override


class ServerlessConfig(AppConfig):
    """Configuration of the app."""

    name = "serverless"
    verbose_name = "Serverless"

    @override
    def ready(self) -> None:
        """Register the kinds of operation of this app."""
        from serverless.operations import register_operations

        register_operations()
