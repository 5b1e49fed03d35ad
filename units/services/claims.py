"""Claims, consumes and releases stock units.

The row of a stock unit decides which operation gets it. It is either free (`CLAIMABLE` in
`units.models`), claimed by one open operation, consumed by one unit, or deleted; a consumed stock
unit is never released. This module writes the changes of a hand-over, in the transaction of the
caller. The modules `stock` and `outcomes` write removals, and `units.recovery` writes the changes
of a recovery. Comments name rules of the model in `tests/model`.
"""

from collections.abc import Collection
from typing import Any, Final

from django.core.exceptions import EmptyResultSet
from django.db import connection, transaction
from django.db.models import Q, QuerySet, Sum
from django.db.models.functions import Now

from gpuplatform.errors import PhaseConflict
from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.postgresql.compiled import Statement
from gpuplatform.queueing import Queue, Urgency, enqueue_after_commit
from gpuplatform.reconciliation.leases import mark_changed, mark_due_in
from units.core.sources import SourceReference, source_of
from units.mirror import unit_ending
from units.models import GpuUnit
from units.phases import UnitRole
from units.selectors import first_unlocked, nodes_with
from units.services.names import UnitTask
from units.services.usage import usage_begin
from units.waiting import hint_matcher

GONE = Q(deletion_requested_at__isnull=False) | Q(deleted_at__isnull=False)
"""The condition of stock units that can never be claimed again."""

MAX_ATTEMPTS: Final = 10
"""Maximum number of attempts to claim several rows that other transactions lock."""

GPU_RELEASE_SECONDS: Final = 3.0
"""Delay in seconds after which a consumed stock unit and its consumer are reconciled in any case.
The deletion event of the last pod usually triggers the reconciliation much earlier."""


def claim(
    operation: Operation, free: QuerySet[GpuUnit], *, waits: bool, image: str = ""
) -> GpuUnit | None:
    """Claim a row of `free` for `operation`: the first one whose node has `image`, or the first.

    Returns the claimed row, or `None` if no row can be claimed. Rows that another transaction has
    locked are skipped. If `waits` is true and all rows are locked, the claim waits for the locks:
    the mirror may hold the lock of a free row, and N claims of M free rows must succeed exactly
    min(N, M) times.
    """
    nodes = nodes_with(image)
    warm = _claim_first(operation, free.filter(node__in=nodes), is_warm=True) if nodes else None
    claimed_row = warm or _claim_first(operation, free, is_warm=False)
    if claimed_row is None and waits:
        claimed_row = _first_unlocked(free.only("name", "spec"))
        if claimed_row is not None:
            columns = {"claimed_by": operation, "is_warm_start": False}
            GpuUnit.objects.filter(pk=claimed_row.pk).update(**columns)
    return claimed_row


def claim_selected(operation: Operation, first: Statement) -> GpuUnit | None:
    """Claim the row whose id a compiled statement selects, unlocked; return it, or `None`."""
    return _claim_id(operation, first, is_warm=False)


def claim_all(
    operation: Operation, free: QuerySet[GpuUnit], number: int, *, waits: bool, image: str = ""
) -> GpuUnit | None:
    """Claim `number` rows of `free`, or none; return the first claimed row, or `None`.

    Locked rows are skipped. If `waits` is true and too few rows are left, the claim waits for
    their locks, and begins again. It holds no row while it waits for another one: otherwise, it
    could deadlock with a transaction that locks several rows in another order.
    """
    if number == 1:
        return claim(operation, free, waits=waits, image=image)
    for _ in range(MAX_ATTEMPTS):
        first = _claim_unlocked(operation, free, number, image)
        if first is not None or not waits or not _wait_for_locks(free, number):
            return first
    return None


def _claim_unlocked(
    operation: Operation, free: QuerySet[GpuUnit], number: int, image: str
) -> GpuUnit | None:
    first: GpuUnit | None = None
    with transaction.atomic():
        for _ in range(number):
            row = claim(operation, free, waits=False, image=image)
            if row is None:
                transaction.set_rollback(True)  # Releases the locks of the rows, too.
                return None
            first = first or row
    return first


def _wait_for_locks(free: QuerySet[GpuUnit], number: int) -> bool:
    """Wait until no row was locked; return whether enough rows were free before."""
    rows = list(free.values_list("pk", flat=True))
    if len(rows) < number:
        return False
    for row_id in rows:
        with transaction.atomic():
            free.filter(pk=row_id).select_for_update(of=("self",)).first()
            transaction.set_rollback(True)
    return True


def _claim_first(
    operation: Operation, rows: QuerySet[GpuUnit], *, is_warm: bool
) -> GpuUnit | None:
    """Claim the first of `rows` that no other transaction has locked, with one statement."""
    query: Any = first_unlocked(rows).query  # The type stubs do not declare compilers.
    try:
        chosen = Statement(*query.get_compiler(connection=connection).as_sql())
    except EmptyResultSet:  # No row can match, for example with `id IN ()`.
        return None
    return _claim_id(operation, chosen, is_warm=is_warm)


def _claim_id(operation: Operation, chosen: Statement, *, is_warm: bool) -> GpuUnit | None:
    sql = (
        "UPDATE units_gpuunit SET claimed_by_id = %s, is_warm_start = %s"  # noqa: S608 - compiled
        f" WHERE id = ({chosen.sql}) RETURNING id, name, spec"
    )
    return next(iter(GpuUnit.objects.raw(sql, [operation.pk, is_warm, *chosen.params])), None)


def _first_unlocked(free: QuerySet[GpuUnit]) -> GpuUnit | None:
    """Wait for the locks of the rows; return the first row that is still free, locked.

    If a row turns out to be claimed, rolling back the savepoint releases its lock. Otherwise, two
    transactions that wait for each other's rows would deadlock.
    """
    for row_id in list(free.values_list("pk", flat=True)):
        with transaction.atomic():
            claimed_row = free.filter(pk=row_id).select_for_update(of=("self",)).first()
            if claimed_row is not None:
                return claimed_row
            transaction.set_rollback(True)
    return None


def claimed_stock(operation: Operation) -> GpuUnit | None:
    """Return the stock unit that `operation` has claimed, or `None`."""
    return GpuUnit.objects.filter(claimed_by=operation).order_by("id").first()


def claimed_gpus(operation: Operation) -> int:
    """Return the number of GPUs of the stock units that `operation` has claimed."""
    rows = GpuUnit.objects.filter(claimed_by=operation)
    return int(rows.aggregate(number=Sum("gpu", default=0))["number"])


def reassign(
    operation: Operation, deleted: GpuUnit | None, free: QuerySet[GpuUnit], image: str = ""
) -> bool:
    """Claim another stock unit instead of one whose resource was deleted.

    A stock unit whose node has `image` is preferred.

    Returns:
        Whether a stock unit was claimed. If no stock unit is free, nothing is written.
    """
    lost = GpuUnit.objects.filter(pk=deleted.pk if deleted else 0, claimed_by=operation)
    # No deadlock is possible: the old row is locked first, and the new one without waiting.
    found = list(lost.select_for_update().values_list("pk", flat=True))
    if claim(operation, free, waits=False, image=image) is None:
        return False
    abandon(found)
    return True


def abandon(rows: Collection[int]) -> None:
    """Release claimed rows whose resource was deleted, by id. They are never free again.

    Rule `gonerow`. The reconciler closes the rows.
    """
    gone = GpuUnit.objects.filter(pk__in=rows)
    gone.update(claimed_by=None)
    unit_ending(gone)
    reconcile_soon(gone)


def consume(operation: Operation, unit: Manifest) -> bool:
    """Record that `unit` consumed its source, and release all other claims of `operation`.

    See `consume_one`.
    """
    existed = consume_one(operation, unit)
    release_claims(operation)
    return existed


def consume_one(operation: Operation, unit: Manifest) -> bool:
    """Record that `unit` consumed its source, and keep all other claims of `operation`.

    The source is read from the unit as the cluster returned it, never from the claim (rule
    `named`). It is consumed if this operation claims it, or if it is deleted and not consumed.

    Returns:
        Whether the source still existed, so that its pods must still be deleted.
    """
    source = source_of(unit)
    return source is not None and _consume(operation, source, unit)


def _consume(operation: Operation, source: SourceReference, unit: Manifest) -> bool:
    unit_uid = unit["metadata"]["uid"]
    rows = GpuUnit.objects.filter(role=UnitRole.STOCK, name=source.name, uid=source.uid)
    free = rows.filter(consumed_by="")  # Rule `final`.
    columns = {"claimed_by": None, "consumed_by": unit_uid, "consumed_at": Now()}
    if free.filter(claimed_by=operation).exclude(GONE).update(**columns):
        # The worker deletes the source next. If the worker is killed, the mark has it reconciled.
        mark_due_in(rows, GPU_RELEASE_SECONDS)
        usage_begin(unit, operation.tenant_id)
        return True
    is_eligible = Q(claimed_by=operation) | (GONE & Q(claimed_by__isnull=True))
    if free.filter(is_eligible).update(**columns):
        reconcile_soon(rows)
        usage_begin(unit, operation.tenant_id)
    return False


def consumed_stock(unit: Manifest) -> QuerySet[GpuUnit]:
    """Return the row of the source of `unit`, if exactly this unit consumed it."""
    source = source_of(unit)
    return GpuUnit.objects.filter(
        role=UnitRole.STOCK,
        uid=source.uid if source else "",
        consumed_by=unit["metadata"]["uid"],
    )


def release_claims(operation: Operation) -> None:
    """Release the claims of an operation that ends, and enqueue their stock units."""
    rows = GpuUnit.objects.filter(claimed_by=operation)
    found = dict(rows.values_list("id", "spec_name"))
    if found:
        rows.update(claimed_by=None)
        reconcile_soon(GpuUnit.objects.filter(id__in=found))
        for spec_name in set(found.values()):
            hint_matcher(spec_name)


def reconcile_later(row_id: int, seconds: float) -> None:
    """Enqueue a row for reconciliation after `seconds`; an event can enqueue it earlier."""
    if mark_due_in(GpuUnit.objects.filter(pk=row_id), seconds):
        enqueue_after_commit(
            UnitTask.RECONCILE_UNIT, row_id, queue=Queue.RECONCILE, countdown=seconds
        )


def unit_reconcile_soon(unit: GpuUnit) -> None:
    """Enqueue a unit for reconciliation, regardless of the backoff of its failures.

    Raises:
        PhaseConflict: If the unit has no resource.
    """
    if unit.deleted_at or not unit.uid:
        msg = f"The GPU unit '{unit.name}' has no resource in the cluster."
        raise PhaseConflict(msg)
    with transaction.atomic():
        reconcile_soon(GpuUnit.objects.filter(pk=unit.pk))


def reconcile_soon(rows: QuerySet[GpuUnit], urgency: Urgency = Urgency.NEXT) -> None:
    """Mark the rows that have a resource due, and enqueue them after the commit."""
    for row_id in mark_changed(rows.filter(deleted_at__isnull=True).exclude(uid="")):
        enqueue_after_commit(
            UnitTask.RECONCILE_UNIT, row_id, queue=Queue.RECONCILE, urgency=urgency
        )
