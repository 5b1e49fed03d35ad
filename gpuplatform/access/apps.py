"""The Django app of the API of members and tokens."""

from django.apps import AppConfig
from typing_extensions import override


class AccessConfig(AppConfig):
    """Configuration of the app `access`, which has no models: they belong to `tenancy`."""

    name = "gpuplatform.access"
    label = "access"
    verbose_name = "Access"

    @override
    def ready(self) -> None:
        """Register the operation kinds of this app. Their acceptance changes the rows."""
        from gpuplatform.access.services import AccessOperation
        from gpuplatform.operations.registry import OperationKind, register

        for kind in AccessOperation:
            register(OperationKind(kind, needs_cluster=False))
