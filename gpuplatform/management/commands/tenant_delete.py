"""`manage.py tenant_delete`: delete a tenant, like the API."""

from typing import Any

from typing_extensions import override

from gpuplatform.management.tenant_command import TenantCommand
from gpuplatform.operations.services import Accepted
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenants.services.tenants import tenant_request_deletion


class Command(TenantCommand):
    """The command `tenant_delete`."""

    help = "Requests the deletion of a tenant that has no units and functions."
    verb = "delete"

    @override
    def accept(self, caller: Tenant, operation_id: str, options: dict[str, Any]) -> Accepted:
        return tenant_request_deletion(
            tenant=caller, name=options["name"], operation_id=operation_id
        )
