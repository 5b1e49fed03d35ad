"""The Django app of operations."""

from django.apps import AppConfig
from typing_extensions import override


class OperationsConfig(AppConfig):
    """Configuration of the app `operations`."""

    name = "gpuplatform.operations"
    label = "operations"
    verbose_name = "Operations"

    @override
    def ready(self) -> None:
        """Register the operation kinds of this app."""
        from gpuplatform.operations.interventions import register_operations

        register_operations()
