"""Requests the stops of the units of a suspended tenant, in batches."""

from contextlib import suppress
from typing import Final

from gpuplatform.errors import NotFound, PhaseConflict
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import take_turn_of_object
from gpuplatform.tenancy.locks import share_tenant
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.phases import TenantPhase
from gpuplatform.tenants.services.contents import stop_operation_id, units_to_stop
from units.models import GpuUnit
from units.services.names import UNIT_KIND
from units.services.units import unit_request_deletion, unit_stop

BATCH: Final = 20
"""Number of units whose stop one transaction requests."""


def stop_batch(suspension: Operation, tenant: Tenant) -> None:
    """Request the stop of the next units of a tenant, unless it was resumed.

    Must be called in a transaction. Since the phase has changed, no other unit can start, so that
    one stop of each unit is sufficient: it is executed after the earlier operations on the unit.
    """
    batch = units_to_stop(tenant, suspension)[:BATCH]
    for namespace, name in sorted((unit.namespace, unit.name) for unit in batch):
        take_turn_of_object(UNIT_KIND, namespace, name)
    if share_tenant(tenant.pk) != TenantPhase.SUSPENDED:
        return
    for unit in batch:
        # A unit that is deleted or is being deleted does not need a stop.
        with suppress(NotFound, PhaseConflict):
            _stop(suspension, tenant, unit)
    done = suspension.progress_done + len(batch)
    left = len(units_to_stop(tenant, suspension))
    Operation.objects.filter(pk=suspension.pk).update(
        progress_done=done, progress_total=max(1, done + left)
    )


def _stop(suspension: Operation, tenant: Tenant, unit: GpuUnit) -> None:
    """Request the stop of a unit; a worker of a function is deleted, as the activator does."""
    operation_id = stop_operation_id(suspension, unit)
    if "serverless" in unit.spec:
        unit_request_deletion(tenant=tenant, name=unit.name, operation_id=operation_id)
    else:
        unit_stop(tenant=tenant, name=unit.name, operation_id=operation_id, also_of_group=True)
