"""`manage.py tenant_suspend`: suspend a tenant, like the API."""

from typing import Any

from typing_extensions import override

from gpuplatform.management.tenant_command import TenantCommand
from gpuplatform.operations.services import Accepted
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenants.services.tenants import tenant_suspend


class Command(TenantCommand):
    """The command `tenant_suspend`."""

    help = (
        "Requests the suspension of a tenant: its tokens can only read, and its units are stopped."
    )
    verb = "suspend"

    @override
    def accept(self, caller: Tenant, operation_id: str, options: dict[str, Any]) -> Accepted:
        return tenant_suspend(tenant=caller, name=options["name"], operation_id=operation_id)
