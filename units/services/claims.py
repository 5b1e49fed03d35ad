"""Claims of stock: the rows decide which operation gets which stock unit.

A stock row is free, claimed by one open operation, consumed by one unit (final), or deleted. This
module makes the changes of a hand-over, in the transaction of its caller; removals are in `stock`
and `outcomes`, the recovery in `units.recovery`. `CLAIMABLE` in `units.models` defines which stock
is free. The rules in comments are those of the model in `tests/model`.
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
"""Stock that is never claimed again, whether its resource still exists or not."""

GPU_RELEASE_SECONDS: Final = 3.0
"""Seconds after which a consumed stock unit is reconciled if the deletion event of its last pod,
which usually arrives much earlier, is missing."""


def claimable_stock(spec_name: str, *, stock_name: str = "") -> QuerySet[GpuUnit]:
    """Return the stock that may be claimed, oldest first; none of a disabled spec."""
    disabled = GpuSpec.objects.filter(name=OuterRef("spec_name"), is_enabled=False)
    free = claimable(spec_name).filter(~Exists(disabled))
    return free.filter(name=stock_name) if stock_name else free


def claim(operation: Operation, free: QuerySet[GpuUnit], *, waits: bool) -> GpuUnit | None:
    """Claim the first row of `free` for `operation` and return it; None without any.

    Rows that another transaction has locked are skipped. With `waits`, if no other row is left,
    they are waited for one after the other: the mirror may have locked a free row, and N claims
    over M free rows must succeed exactly min(N, M) times.
    """
    free = free.only("name", "spec")
    claimed_row = free.select_for_update(skip_locked=True, of=("self",)).first()
    if claimed_row is None and waits:
        claimed_row = _first_unlocked(free)
    if claimed_row is not None:
        GpuUnit.objects.filter(pk=claimed_row.pk).update(claimed_by=operation)
    return claimed_row


def _first_unlocked(free: QuerySet[GpuUnit]) -> GpuUnit | None:
    """Wait for locked rows; return the first that is still free, locked.

    A row that turns out not to be free would stay locked until the end of the transaction, and two
    transactions that wait for each other's rows would deadlock: the savepoint releases it.
    """
    for row_id in list(free.values_list("pk", flat=True)):
        with transaction.atomic():
            claimed_row = free.filter(pk=row_id).select_for_update(of=("self",)).first()
            if claimed_row is not None:
                return claimed_row
            transaction.set_rollback(True)
    return None


def claimed_stock(operation: Operation) -> GpuUnit | None:
    """Return the stock unit that `operation` has claimed."""
    return GpuUnit.objects.filter(claimed_by=operation).order_by("id").first()


def reassign(operation: Operation, deleted: GpuUnit | None, free: QuerySet[GpuUnit]) -> bool:
    """Claim another row in place of one whose resource was deleted.

    Returns:
        False if no other row is free; nothing is written then.
    """
    lost = GpuUnit.objects.filter(pk=deleted.pk if deleted else 0, claimed_by=operation)
    # The old row is locked first and the new one without waiting, which excludes a deadlock.
    found = list(lost.select_for_update())
    if claim(operation, free, waits=False) is None:
        return False
    # Rule `gonerow`: this row is never free again; the reconciler closes it.
    gone = GpuUnit.objects.filter(pk__in=[row.pk for row in found])
    gone.update(claimed_by=None)
    unit_ending(gone)
    reconcile_soon(gone)
    return True


def consume(operation: Operation, unit: Manifest) -> bool:
    """Record that `unit` consumed the stock that it names as its source; release other claims.

    Rule `named`: the source is read from the unit as the cluster returned it, never from the
    claim. It is consumed if this operation claims it, or if it is deleted and not consumed.

    Returns:
        Whether the source still existed, so that its pods have yet to be deleted.
    """
    source = source_of(unit)
    existed = source is not None and _consume(operation, source, unit["metadata"]["uid"])
    release_claims(operation)
    return existed


def _consume(operation: Operation, source: SourceReference, unit_uid: str) -> bool:
    rows = GpuUnit.objects.filter(role=UnitRole.STOCK, name=source.name, uid=source.uid)
    free = rows.filter(consumed_by="")  # Rule `final`.
    columns = {"claimed_by": None, "consumed_by": unit_uid, "consumed_at": Now()}
    if free.filter(claimed_by=operation).exclude(GONE).update(**columns):
        # The run that records this deletes the source next; the mark is for when it does not.
        mark_due_in(rows, GPU_RELEASE_SECONDS)
        return True
    is_eligible = Q(claimed_by=operation) | (GONE & Q(claimed_by__isnull=True))
    if free.filter(is_eligible).update(**columns):
        reconcile_soon(rows)
    return False


def consumed_stock(unit: Manifest) -> QuerySet[GpuUnit]:
    """Return the row of the stock that `unit` names, if exactly this unit consumed it."""
    source = source_of(unit)
    return GpuUnit.objects.filter(
        role=UnitRole.STOCK,
        uid=source.uid if source else "",
        consumed_by=unit["metadata"]["uid"],
    )


def release_claims(operation: Operation) -> None:
    """Release the claims of an operation that ends."""
    rows = GpuUnit.objects.filter(claimed_by=operation)
    ids = list(rows.values_list("id", flat=True))
    if ids:
        rows.update(claimed_by=None)
        reconcile_soon(GpuUnit.objects.filter(id__in=ids))


def reconcile_later(rows: QuerySet[GpuUnit], seconds: float) -> None:
    """Have the rows reconciled after `seconds`, unless an event comes earlier."""
    mark_due_in(rows, seconds)
    for row_id in rows.values_list("id", flat=True):
        enqueue_after_commit(
            UnitTask.RECONCILE_UNIT, row_id, queue=Queue.RECONCILE, countdown=seconds
        )


def unit_reconcile_soon(unit: GpuUnit) -> None:
    """Have a unit reconciled now, without waiting for the backoff of its failures.

    Raises:
        PhaseConflict: it has no resource.
    """
    if unit.deleted_at or not unit.uid:
        msg = f"The GPU unit '{unit.name}' has no resource in the cluster."
        raise PhaseConflict(msg)
    with transaction.atomic():
        reconcile_soon(GpuUnit.objects.filter(pk=unit.pk))


def reconcile_soon(rows: QuerySet[GpuUnit], urgency: Urgency = Urgency.NEXT) -> None:
    """Mark the rows with a resource due, and enqueue them after the commit."""
    for row_id in mark_changed(rows.filter(deleted_at__isnull=True).exclude(uid="")):
        enqueue_after_commit(
            UnitTask.RECONCILE_UNIT, row_id, queue=Queue.RECONCILE, urgency=urgency
        )
