"""Finds the requests for capacity that wait because of the limits of their tenants.

Nothing is stored: the limits and the use of a tenant can change at any time.
"""

from collections.abc import Collection, Iterable

from django.db.models import Q

from inventory.models import GpuSpec
from units.gpu_usage import gpu_limits, gpu_room, gpus_counted
from units.models import CapacityRequest, GpuUnit
from units.waiting import OPEN


def requests_barred(requests: Iterable[CapacityRequest]) -> set[int]:
    """Return the ids of the requests whose tenant may not have their GPUs now."""
    rows = list(requests)
    limits = {
        tenant: some
        for tenant, some in gpu_limits({row.tenant_id for row in rows}).items()
        if some
    }
    limited = [row for row in rows if row.tenant_id in limits]
    if not limited:
        return set()
    counts = gpus_counted(limits)
    names = {row.spec_name for row in limited}
    sizes = dict(GpuSpec.objects.filter(name__in=names).values_list("name", "gpu"))
    found = set()
    for row in limited:
        room = gpu_room(limits[row.tenant_id], counts[row.tenant_id], row.spec_name)
        if room is not None and 0 < row.count * sizes.get(row.spec_name, 0) > room:
            found.add(row.pk)
    return found


def units_barred(units: Collection[GpuUnit]) -> set[int]:
    """Return the ids of units whose request waits because of a limit.

    `units` are rows of `units_live`. All units that a waiting group has to create are included.
    """
    waiting = [row for row in units if row.waits_since is not None]
    tenants = {row.tenant_id for row in waiting if row.tenant_id is not None}
    if not tenants or not any(gpu_limits(tenants).values()):
        return set()
    operations = {row.operation_id for row in waiting if not row.uid}
    about = Q(unit__in=[row.pk for row in waiting]) | Q(operation__in=operations)
    requests = list(CapacityRequest.objects.filter(OPEN, about))
    barred = requests_barred(requests)
    by_unit = {one.unit_id for one in requests if one.pk in barred}
    by_operation = {one.operation_id for one in requests if one.pk in barred}
    return {
        row.pk
        for row in waiting
        if row.pk in by_unit or (not row.uid and row.operation_id in by_operation)
    }


def barred_condition() -> Q:
    """Return the condition of the units whose request waits because of a limit."""
    limited = CapacityRequest.objects.filter(OPEN, tenant__limits__isnull=False).distinct()
    requests = list(limited)
    barred = requests_barred(requests)
    found = [one for one in requests if one.pk in barred]
    of_group = Q(operation__in=[one.operation_id for one in found], uid="")
    return Q(pk__in=[one.unit_id for one in found]) | of_group
