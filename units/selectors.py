"""Queries of GPU units and stock."""

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import Any, Final, cast

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Coalesce, Now

from gpuplatform.errors import NotFound
from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import ENDED_PHASES, OperationPhase
from gpuplatform.operations.provenance import applied_operation, was_written_by_platform
from gpuplatform.operations.selectors import is_leftover
from gpuplatform.samples.capacity import SpecCapacity
from units.core.shortage import Shortage
from units.models import CLAIMABLE, GpuUnit, ShortNode, UnitHistory
from units.phases import STOCK_NAMESPACE, UnitPhase, UnitRole

START_KIND: Final = "unit.start"
"""The kind of the operation that starts a stopped unit."""

_USED = ("units", "failed", "gpus")
_DECIDES = ("kind", "phase", "object_namespace", "object_name")
_VOID_PHASES = (OperationPhase.FAILED, OperationPhase.CANCELLED)


class StockState(StrEnum):
    """The state of a stock unit that is neither consumed nor deleted; exactly one applies."""

    STARTING = "starting"
    READY = "ready"
    CLAIMED = "claimed"
    FAILED = "failed"
    DELETING = "deleting"


_LIVE = Q(deleted_at__isnull=True)
_STOCK = Q(role=UnitRole.STOCK)
_HELD = _STOCK & _LIVE & Q(consumed_by="")
"""Stock that exists or is being created and that no unit has consumed."""
_DELETING = Q(deletion_requested_at__isnull=False) | Q(phase=UnitPhase.TERMINATING)
_CLAIMED = ~_DELETING & Q(claimed_by__isnull=False)
_FREE = ~_DELETING & Q(claimed_by__isnull=True)

_STATES: Final = {
    StockState.READY: _FREE & Q(phase=UnitPhase.READY),
    StockState.CLAIMED: _CLAIMED,
    StockState.STARTING: _FREE & ~Q(phase__in=(UnitPhase.READY, UnitPhase.FAILED)),
    StockState.FAILED: _FREE & Q(phase=UnitPhase.FAILED),
    StockState.DELETING: _DELETING,
}
"""The condition of each state, within the held stock."""


def units_live(role: UnitRole | None = None) -> QuerySet[GpuUnit]:
    """Return units that exist or are being created, newest first; of one role if given."""
    live = GpuUnit.objects.filter(_LIVE)
    if role is not None:
        live = live.filter(role=role)
    return live.select_related("operation", "tenant").order_by("-id")


def unit_get(namespace: str, name: str) -> GpuUnit:
    """Return one active unit; stock is invisible here.

    Raises:
        NotFound: no active unit has that name.
    """
    found = units_live(UnitRole.ACTIVE).filter(namespace=namespace, name=name).first()
    if found is None:
        msg = f"GPU unit '{name}' not found in namespace '{namespace}'."
        raise NotFound(msg)
    return found


def stock_live() -> QuerySet[GpuUnit]:
    """Return stock that exists or is being created and is not consumed, newest first."""
    held = GpuUnit.objects.filter(_HELD)
    return held.select_related("operation", "tenant", "claimed_by").order_by("-id")


def stock_get(name: str) -> GpuUnit:
    """Return one stock unit that no unit has consumed.

    Raises:
        NotFound: no stock unit has that name.
    """
    found = stock_live().filter(name=name).first()
    if found is None:
        msg = f"Stock unit '{name}' not found."
        raise NotFound(msg)
    return found


def stock_newest(name: str) -> GpuUnit:
    """Return the newest stock unit of that name, which may be consumed or deleted.

    Raises:
        NotFound: no stock unit has that name.
    """
    rows = GpuUnit.objects.filter(_STOCK, namespace=STOCK_NAMESPACE, name=name)
    found = rows.order_by("-id").first()
    return found or stock_get(name)


def stock_in(state: StockState) -> QuerySet[GpuUnit]:
    """Return the stock of that state, newest first."""
    return stock_live().filter(_STATES[state])


def claimable(spec_name: str) -> QuerySet[GpuUnit]:
    """Return the stock of a spec that a create may claim, oldest first."""
    return GpuUnit.objects.filter(CLAIMABLE, spec_name=spec_name).order_by("id")


def stock_state(row: GpuUnit) -> StockState:
    """Return the state of a stock unit; a consumed or deleted one is being deleted."""
    is_over = row.deletion_requested_at or row.deleted_at or row.consumed_by
    if is_over or row.phase == UnitPhase.TERMINATING:
        return StockState.DELETING
    if row.claimed_by_id is not None:
        return StockState.CLAIMED
    match row.phase:
        case UnitPhase.READY:
            return StockState.READY
        case UnitPhase.FAILED:
            return StockState.FAILED
        case _:
            return StockState.STARTING


def history_of(unit: GpuUnit) -> QuerySet[UnitHistory]:
    """Return the changes of a unit's phase and reason, newest first."""
    return UnitHistory.objects.filter(unit=unit).select_related("operation").order_by("-id")


def units_due(limit: int) -> list[int]:
    """Return the ids of due units that no worker has claimed, longest due first."""
    free = Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lt=Now())
    due = GpuUnit.objects.filter(free, _LIVE, due_at__lte=Now())
    return list(due.exclude(uid="").order_by("due_at").values_list("id", flat=True)[:limit])


def stock_ready_count() -> int:
    """Return the number of claimable stock units."""
    return GpuUnit.objects.filter(CLAIMABLE).count()


def short_nodes() -> tuple[Shortage, ...]:
    """Return the nodes that offer fewer GPUs than their pods hold, by name."""
    known = ShortNode.objects.values_list("name", "gpus_offered", "gpus_held")
    return tuple(Shortage(*one) for one in known)


def active_count() -> int:
    """Return the number of active units that exist or are being created."""
    return GpuUnit.objects.filter(_LIVE, role=UnitRole.ACTIVE).count()


def capacity_by_spec() -> list[SpecCapacity]:
    """Return the counts of the units of each spec, by name, in one query.

    The other fields have their defaults; `units.capacity` fills them.
    """
    counts = {
        **{state.value: _HELD & is_so for state, is_so in _STATES.items()},
        "active": _LIVE & Q(role=UnitRole.ACTIVE),
        "seeded": _STOCK,
        "consumed": _STOCK & ~Q(consumed_by=""),
        "deleted": _STOCK & Q(consumed_by="", deleted_at__isnull=False),
    }
    rows = (
        GpuUnit.objects.order_by("spec_name")
        .values("spec_name")
        .annotate(**{name: Count("id", filter=which) for name, which in counts.items()})
    )
    return [
        SpecCapacity(name=row.pop("spec_name"), **row)
        for row in cast("Iterable[dict[str, Any]]", rows)
    ]


def gpus_by_spec() -> dict[str, dict[str, int]]:
    """Return the GPUs that the units of each spec hold or will hold, by state and `active`.

    A stopped unit holds none; the GPU of consumed stock is its consumer's.
    """
    which = {state.value: _HELD & is_so for state, is_so in _STATES.items()}
    which["active"] = _LIVE & Q(role=UnitRole.ACTIVE) & ~Q(phase=UnitPhase.STOPPED)
    rows = (
        GpuUnit.objects.filter(_LIVE)
        .order_by("spec_name")
        .values("spec_name")
        .annotate(**{name: Coalesce(Sum("gpu", filter=is_so), 0) for name, is_so in which.items()})
    )
    return {
        one["spec_name"]: {use: one[use] for use in which}
        for one in cast("Iterable[dict[str, Any]]", rows)
    }


def usage_by_tenant(tenants: Collection[int]) -> dict[int, dict[str, int]]:
    """Return the numbers of units, failed units and GPUs by tenant, without empty ones."""
    live = GpuUnit.objects.filter(_LIVE, role=UnitRole.ACTIVE, tenant__in=tenants)
    rows = (
        live.order_by("tenant")
        .values("tenant")
        .annotate(
            units=Count("id"),
            failed=Count("id", filter=Q(phase=UnitPhase.FAILED)),
            gpus=Coalesce(Sum("gpu", filter=~Q(phase=UnitPhase.STOPPED)), 0),
        )
    )
    found = cast("Iterable[dict[str, int]]", rows)
    return {one["tenant"]: {name: one[name] for name in _USED} for one in found}


def gpus_by_tenant() -> dict[str, int]:
    """Return the GPUs of each tenant's units that are not stopped, by the tenant's name."""
    running = GpuUnit.objects.filter(_LIVE, role=UnitRole.ACTIVE, tenant__isnull=False)
    rows = running.exclude(phase=UnitPhase.STOPPED).order_by("tenant__name")
    return dict(rows.values_list("tenant__name").annotate(Sum("gpu")))


def is_unit_leftover(unit: Manifest, operation: Operation | None) -> bool:
    """Return whether a late write created `unit`: its operation ended without recording it.

    `unit` has to be read first and `operation` second. A seeding creates several stock units: the
    row of each name has the UID that the seeding recorded.
    """
    metadata = unit["metadata"]
    if metadata["namespace"] != STOCK_NAMESPACE:
        return is_leftover(unit, operation)
    if operation is None or operation.phase not in ENDED_PHASES:
        return False
    made = operation.gpu_units.filter(role=UnitRole.STOCK, name=metadata["name"])
    uids = set(made.values_list("uid", flat=True))
    return bool(uids) and metadata["uid"] not in uids and was_written_by_platform(unit)


def void_starts_to_retain() -> QuerySet[Operation]:
    """Return the starts of existing units that failed or were cancelled.

    One of them may be the operation last applied to its unit, which runs if that is lost.
    """
    live = GpuUnit.objects.filter(pk=OuterRef("object_row"), deleted_at__isnull=True)
    return Operation.objects.filter(Exists(live), kind=START_KIND, phase__in=_VOID_PHASES)


def is_start_void(unit: Manifest) -> bool:
    """Return whether the last operation applied to `unit` is a start that failed or was cancelled.

    Such a unit counts as suspended (rule `voidstart` of the hand-over's model).
    """
    void = Operation.objects.filter(id__in={applied_operation(unit)} - {0}, kind=START_KIND)
    return bool(starts_void([unit], void.filter(phase__in=_VOID_PHASES).only(*_DECIDES)))


def starts_void(units: Sequence[Manifest], operations: Iterable[Operation]) -> set[str]:
    """Return the UIDs of units whose last applied operation is a failed or cancelled start.

    `operations` are the candidates.
    """
    started = {
        one.pk: one for one in operations if one.kind == START_KIND and one.phase in _VOID_PHASES
    }

    def is_void(metadata: Manifest, operation: Operation | None) -> bool:
        return operation is not None and (
            operation.object_namespace == metadata["namespace"]
            and operation.object_name == metadata["name"]
        )

    return {
        unit["metadata"]["uid"]
        for unit in units
        if is_void(unit["metadata"], started.get(applied_operation(unit)))
    }
