"""Serverless: functions that run on GPU units when they are invoked."""

from django.apps import AppConfig
from typing_extensions import override


class ServerlessConfig(AppConfig):
    """Functions, invocations, and the workers between them."""

    name = "serverless"
    verbose_name = "Serverless"

    @override
    def ready(self) -> None:
        """Make the kinds of operation of this app known."""
        from serverless.operations import register_operations

        register_operations()
