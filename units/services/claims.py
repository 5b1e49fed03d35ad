"""Who gets which stock unit: the rows decide, one transaction at a time.

A stock row is free, claimed by one open operation, consumed by one unit (final), or gone. Every
change between these is here; each function runs inside the transaction of its caller. The rules
named in comments are those of the model in `tests/model`.
"""

from typing import Final

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from gpuplatform.errors import PhaseConflict
from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.queueing import Queue, Urgency, enqueue_after_commit
from gpuplatform.reconciliation.leases import mark_changed, mark_due_in
from inventory.models import GpuSpec
from units.core.sources import SourceReference, source_of
from units.mirror import unit_ending
from units.models import GpuUnit
from units.phases import UnitRole
from units.selectors import claimable
from units.services.names import UnitTask

GONE = Q(deletion_requested_at__isnull=False) | Q(deleted_at__isnull=False)
"""Never to be claimed again, whether its resource is still seen or not."""

GPU_RELEASE_SECONDS: Final = 3.0
"""How long a stock unit may take to give up its GPU before anybody looks what it is about: the
event of its last pod's end comes long before."""


def claimable_stock(spec_name: str, *, stock_name: str = "") -> QuerySet[GpuUnit]:
    """Return what may be claimed, oldest first; nothing of a spec that is disabled."""
    disabled = GpuSpec.objects.filter(name=OuterRef("spec_name"), is_enabled=False)
    free = claimable(spec_name).filter(~Exists(disabled))
    return free.filter(name=stock_name) if stock_name else free


def claim(operation: Operation, free: QuerySet[GpuUnit], *, waits: bool) -> GpuUnit | None:
    """Set the first of `free` aside for `operation`; return it, None when there is none.

    Rows that another transaction holds are passed over. With `waits`, when nothing else is left
    they are waited for one after the other: a row that is only being copied is free all the same,
    so that N claims over M free rows take exactly min(N, M).
    """
    free = free.only("name", "spec")
    taken = free.select_for_update(skip_locked=True, of=("self",)).first()
    if taken is None and waits:
        taken = _waited_for(free)
    if taken is not None:
        GpuUnit.objects.filter(pk=taken.pk).update(claimed_by=operation)
    return taken


def _waited_for(free: QuerySet[GpuUnit]) -> GpuUnit | None:
    """Wait for the rows that others hold; return the first that is free all the same, locked.

    A row that was waited for in vain would stay locked until the end of the transaction, and two
    that wait for each other's rows would be a deadlock: the savepoint lets it go.
    """
    for number in list(free.values_list("pk", flat=True)):
        with transaction.atomic():
            taken = free.filter(pk=number).select_for_update(of=("self",)).first()
            if taken is not None:
                return taken
            transaction.set_rollback(True)
    return None


def claimed_stock(operation: Operation) -> GpuUnit | None:
    """Return the row that is set aside for `operation`."""
    return GpuUnit.objects.filter(claimed_by=operation).order_by("id").first()


def reassign(operation: Operation, vanished: GpuUnit | None, free: QuerySet[GpuUnit]) -> bool:
    """Claim another row in place of one whose resource was seen gone.

    Returns False when there is none; nothing is written then.
    """
    lost = GpuUnit.objects.filter(pk=vanished.pk if vanished else 0, claimed_by=operation)
    # The old row is locked first and the new one without waiting, so that no two can hold what
    # the other waits for.
    found = list(lost.select_for_update())
    if claim(operation, free, waits=False) is None:
        return False
    # Rule `gonerow`: what was seen gone is never free again; the reconciler closes its row.
    gone = GpuUnit.objects.filter(pk__in=[row.pk for row in found])
    gone.update(claimed_by=None)
    unit_ending(gone)
    reconcile_soon(gone)
    return True


def consume(operation: Operation, unit: Manifest) -> bool:
    """Give the stock that `unit` names as its source to it; free what else was set aside.

    Rule `named`: the source is taken from the unit as read back, never from the claim. It is
    consumed if this operation claims it, or if it is gone and not consumed.

    Returns whether it was there, as far as is known: its pods are still to go then.
    """
    source = source_of(unit)
    is_there = source is not None and _take(operation, source, unit["metadata"]["uid"])
    release_claims(operation)
    return is_there


def _take(operation: Operation, source: SourceReference, unit_uid: str) -> bool:
    rows = GpuUnit.objects.filter(role=UnitRole.STOCK, name=source.name, uid=source.uid)
    free = rows.filter(consumed_by="")  # Rule `final`: what is consumed stays with its unit.
    taken = {"claimed_by": None, "consumed_by": unit_uid, "consumed_at": Now()}
    if free.filter(claimed_by=operation).exclude(GONE).update(**taken):
        # Whoever recorded this deletes it at once; this is for where that does not happen.
        mark_due_in(rows, GPU_RELEASE_SECONDS)
        return True
    may_take = Q(claimed_by=operation) | (GONE & Q(claimed_by__isnull=True))
    if free.filter(may_take).update(**taken):
        reconcile_soon(rows)
    return False


def consumed_stock(unit: Manifest) -> QuerySet[GpuUnit]:
    """Return the row of the stock that `unit` names, if it is consumed by exactly this unit."""
    source = source_of(unit)
    return GpuUnit.objects.filter(
        role=UnitRole.STOCK,
        uid=source.uid if source else "",
        consumed_by=unit["metadata"]["uid"],
    )


def release_claims(operation: Operation) -> None:
    """Free what is set aside for an operation that ends."""
    rows = GpuUnit.objects.filter(claimed_by=operation)
    numbers = list(rows.values_list("id", flat=True))
    if numbers:
        rows.update(claimed_by=None)
        reconcile_soon(GpuUnit.objects.filter(id__in=numbers))


def reconcile_later(rows: QuerySet[GpuUnit], seconds: float) -> None:
    """Let the rows be looked at after so many seconds, unless an event comes before."""
    mark_due_in(rows, seconds)
    for number in rows.values_list("id", flat=True):
        enqueue_after_commit(
            UnitTask.RECONCILE_UNIT, number, queue=Queue.RECONCILE, countdown=seconds
        )


def unit_reconcile_soon(unit: GpuUnit) -> None:
    """Let a unit be looked at now, whatever pause its failures put before that.

    Raises:
        PhaseConflict: it has no resource.
    """
    if unit.deleted_at or not unit.uid:
        msg = f"The GPU unit '{unit.name}' has no resource in the cluster to look at."
        raise PhaseConflict(msg)
    with transaction.atomic():
        reconcile_soon(GpuUnit.objects.filter(pk=unit.pk))


def reconcile_soon(rows: QuerySet[GpuUnit], urgency: Urgency = Urgency.NEXT) -> None:
    """Mark the rows due that have a resource, and hint at them once this is committed."""
    for number in mark_changed(rows.filter(deleted_at__isnull=True).exclude(uid="")):
        enqueue_after_commit(
            UnitTask.RECONCILE_UNIT, number, queue=Queue.RECONCILE, urgency=urgency
        )
