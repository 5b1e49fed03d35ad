"""`manage.py tenant_create`: create a tenant with its namespace, like the API."""

from typing import Any

from django.core.management.base import CommandParser
from typing_extensions import override

from gpuplatform.management.tenant_command import TenantCommand
from gpuplatform.operations.services import Accepted
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenants.requests import TenantCreate
from gpuplatform.tenants.services.tenants import tenant_create


class Command(TenantCommand):
    """The command `tenant_create`."""

    help = "Requests the creation of a tenant, and prints the operationID and the phase."
    verb = "create"

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--display-name", dest="displayName", help="Display name of the tenant."
        )
        parser.add_argument("--namespace", help="Namespace (default: tenant-<name>).")
        parser.add_argument(
            "--adopt-namespace",
            dest="adoptNamespace",
            action="store_true",
            default=None,
            help="Confirm that the tenant gets the existing namespace in --namespace.",
        )
        parser.add_argument(
            "--weight", type=int, help="Weight in the capacity queue, from 1 to 100 (default: 1)."
        )

    @override
    def accept(self, caller: Tenant, operation_id: str, options: dict[str, Any]) -> Accepted:
        names = ("name", "displayName", "namespace", "adoptNamespace", "weight")
        given = {name: options[name] for name in names if options[name] is not None}
        body = TenantCreate.parse({"operationID": operation_id, **given})
        return tenant_create(tenant=caller, body=body)
