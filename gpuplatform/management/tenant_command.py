"""The common parts of the commands that change a tenant."""

import uuid
from abc import abstractmethod
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.errors import PlatformError
from gpuplatform.operations.services import Accepted
from gpuplatform.tenancy.actor import acting_as
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.selectors import tenant_by_name


class TenantCommand(BaseCommand):
    """A command that accepts one operation on a tenant and prints its operationID.

    Idempotent if the operationID is given.
    """

    verb: str
    """The last part of the kind of the operation, such as `create`."""

    @abstractmethod
    def accept(self, caller: Tenant, operation_id: str, options: dict[str, Any]) -> Accepted:
        """Accept the operation; `caller` is the tenant that owns it."""

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="Name of the tenant.")
        parser.add_argument(
            "--operation-id",
            help="Idempotency key of the request. By default, a new one is generated and printed.",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        operation_id = options["operation_id"] or f"tenant-{self.verb}-{uuid.uuid4().hex}"
        try:
            with acting_as(f"manage.py tenant_{self.verb}"):
                accepted = self.accept(tenant_by_name(), operation_id, options)
        except PlatformError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{accepted.operation}: {accepted.operation.phase}")
