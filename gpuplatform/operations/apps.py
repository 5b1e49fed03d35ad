"""Operations: what was asked."""

from django.apps import AppConfig
from typing_extensions import override


class OperationsConfig(AppConfig):
    """The write path: idempotency, the order of operations, their end."""

    name = "gpuplatform.operations"
    label = "operations"
    verbose_name = "Operations"

    @override
    def ready(self) -> None:
        """Make the kinds of operation of this app known."""
        from gpuplatform.operations.interventions import register_operations

        register_operations()
