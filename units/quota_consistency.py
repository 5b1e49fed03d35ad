"""Finds GPUs that count toward the limits of tenants although the rows and the cluster differ.

Called by `units.consistency`. Changes nothing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.consistency import Inconsistency
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.tenancy.models import Tenant
from gpuplatform.workloads.holders import Owner, PlacedHolder
from units.gpu_usage import CLAIMING, gpus_counted
from units.makers import GROUP_CREATE_KIND
from units.models import CapacityRequest, GpuUnit
from units.phases import RequestPhase, UnitPhase, UnitRole


def quota_inconsistencies(
    units: Sequence[Manifest], placed: Sequence[PlacedHolder]
) -> Iterator[Inconsistency]:
    """Yield units and tenants whose counted GPUs differ from the rows or from the pods.

    Args:
        units: All units of the cluster.
        placed: The pods that hold extended resources of nodes.
    """
    held = _held(placed)
    phases = {one["metadata"]["uid"]: field(one, "status", "phase") for one in units}
    reserved = _reserved()
    rows = GpuUnit.objects.filter(role=UnitRole.ACTIVE, tenant__isnull=False).exclude(uid="")
    counted = Counter[int]()
    for row in rows.filter(gpus_seen__gt=0) | rows.filter(deleted_at__isnull=True):
        number = max(row.gpus_seen, reserved.pop(row.pk, 0))
        counted[row.tenant_id or 0] += number
        pods = held[row.uid, row.resource_name]
        is_stopped = phases.get(row.uid) == UnitPhase.STOPPED
        is_over = bool(row.deleted_at) or (is_stopped and row.is_suspended)
        if pods > number or (is_over and row.gpus_seen > pods):
            message = f"its pods hold {pods} GPUs, and {number} are counted for its tenant"
            yield Inconsistency("miscounted", str(row), message)
    yield from _tenants(counted, reserved)


def _held(placed: Sequence[PlacedHolder]) -> Counter[tuple[str, str]]:
    """Return the extended resources that the pods of units hold, by the UID of the unit."""
    held = Counter[tuple[str, str]]()
    for one in placed:
        holder = one.holder
        if holder.owner == Owner.UNIT:
            for resource, number in holder.gpus.items():
                held[holder.owner_uid, resource] += number
    return held


def _reserved() -> dict[int, int]:
    """Return the GPUs that open operations have claimed, by the id of the unit.

    Claims of a unit without a resource have the negative id of the tenant.
    """
    requests = CapacityRequest.objects.filter(phase=RequestPhase.OPEN)
    waiting = set(requests.values_list("operation_id", flat=True))
    existing = set(
        GpuUnit.objects.filter(role=UnitRole.ACTIVE).exclude(uid="").values_list("pk", flat=True)
    )
    found = Counter[int]()
    operations = Operation.objects.filter(kind__in=CLAIMING, phase__in=OPEN_PHASES)
    for operation in operations.prefetch_related("claimed_stock"):
        if operation.pk in waiting and operation.kind != GROUP_CREATE_KIND:
            continue  # What it lost does not count while it waits.
        unit = operation.object_row or 0
        key = unit if unit in existing else -operation.tenant_id
        found[key] += sum(stock.gpu for stock in operation.claimed_stock.all())
    return dict(found)


def _tenants(counted: Counter[int], reserved: Mapping[int, int]) -> Iterator[Inconsistency]:
    """Yield the tenants whose count differs from the sum of their units and claims."""
    for key, number in reserved.items():
        counted[-key] += number
    names = dict(Tenant.objects.values_list("pk", "name"))
    for tenant, count in gpus_counted(names).items():
        if count.total.used != counted[tenant]:
            message = f"{count.total.used} GPUs are counted, and its rows have {counted[tenant]}"
            yield Inconsistency("miscounted", f"tenant {names[tenant]}", message)
