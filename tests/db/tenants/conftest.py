"""The platform of GPU units on an in-memory cluster, and a tenant of users."""

from typing import Any

import pytest

from gpuplatform.operations import driver
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenants.requests import TenantCreate
from gpuplatform.tenants.services import tenants as services
from tests.db.units.conftest import world
from tests.fakes.unit_world import UnitWorld, release, state

__all__ = ["world"]


class Tenants:
    """Requests about tenants in a world, and their execution."""

    def __init__(self, world: UnitWorld) -> None:
        self.world = world
        self.cluster = world.cluster

    def ask_create(self, name: str = "acme", **fields: Any) -> Accepted:
        """Request a tenant."""
        body = TenantCreate.parse({"operationID": f"create-{name}", "name": name, **fields})
        return services.tenant_create(tenant=tenant_by_name(), body=body)

    def create(self, name: str = "acme", **fields: Any) -> Tenant:
        """Create a tenant, and return its row."""
        self.finish(self.ask_create(name, **fields).operation)
        return tenant_by_name(name)

    def ask(self, verb: str, name: str = "acme", operation_id: str = "") -> Accepted:
        """Request the operation `tenant_<verb>`."""
        service = getattr(services, f"tenant_{verb}")
        accepted: Accepted = service(
            tenant=tenant_by_name(), name=name, operation_id=operation_id or f"{verb}-{name}"
        )
        return accepted

    def finish(self, operation: Operation) -> Operation:
        """Run an operation until it has ended."""
        for _ in range(6):
            release(operation)
            driver.run(operation.pk)
        return state(operation)

    def row(self, name: str = "acme") -> Tenant:
        """Return the row of a tenant, also of a deleted one."""
        return Tenant.objects.get(name=name)


@pytest.fixture
def tenants(world: UnitWorld) -> Tenants:
    return Tenants(world)
