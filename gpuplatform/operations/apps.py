"""Operations: what was asked."""

from django.apps import AppConfig


class OperationsConfig(AppConfig):
    """The write path: idempotency, the order of operations, their end."""

    name = "gpuplatform.operations"
    label = "operations"
    verbose_name = "Operations"
