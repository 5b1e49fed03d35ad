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
        """Register the operation kinds of this app, and the use of open operations."""
        from gpuplatform.operations.interventions import register_operations
        from gpuplatform.operations.selectors import operations_used
        from gpuplatform.tenancy.quota import register_usage

        register_operations()
        register_usage(self.label, operations_used)
