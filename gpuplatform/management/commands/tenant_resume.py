"""`manage.py tenant_resume`: resume a tenant, like the API."""

from typing import Any

from typing_extensions import override

from gpuplatform.management.tenant_command import TenantCommand
from gpuplatform.operations.services import Accepted
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenants.services.tenants import tenant_resume


class Command(TenantCommand):
    """The command `tenant_resume`."""

    help = "Requests that a suspended tenant is resumed. Its stopped units remain stopped."
    verb = "resume"

    @override
    def accept(self, caller: Tenant, operation_id: str, options: dict[str, Any]) -> Accepted:
        return tenant_resume(tenant=caller, name=options["name"], operation_id=operation_id)
