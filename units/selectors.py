"""Queries of GPU units in both roles."""

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import Any, Final, cast

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Sum

from gpuplatform.errors import NotFound
from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import ENDED_PHASES, OperationPhase
from gpuplatform.operations.provenance import applied_operation, was_written_by_platform
from gpuplatform.operations.selectors import is_leftover
from gpuplatform.reconciliation.leases import due_ids
from gpuplatform.samples.capacity import SpecCapacity
from units.core.shortage import Shortage
from units.models import CLAIMABLE, GpuUnit, ShortNode, UnitHistory
from units.phases import STOCK_NAMESPACE, UnitPhase, UnitRole

START_KIND: Final = "unit.start"
"""The operation kind that starts a stopped unit."""

_DECIDES = ("kind", "phase", "object_namespace", "object_name")
_VOID_PHASES = (OperationPhase.FAILED, OperationPhase.CANCELLED)


class StockState(StrEnum):
    """The mutually exclusive states of a stock unit that is neither consumed nor deleted."""

    STARTING = "starting"
    READY = "ready"
    CLAIMED = "claimed"
    FAILED = "failed"
    DELETING = "deleting"


_USES = (*(state.value for state in StockState), "active")
"""The uses of GPUs by units."""

_LIVE = Q(deleted_at__isnull=True)
_STOCK = Q(role=UnitRole.STOCK)
_HELD = _STOCK & _LIVE & Q(consumed_by="")
"""Stock units that exist or are being created, and that no unit has consumed."""
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
"""The condition of each state, for stock units that match `_HELD`."""


def units_live(role: UnitRole | None = None) -> QuerySet[GpuUnit]:
    """Return the units that exist or are being created, newest first.

    If `role` is specified, return only units of this role.
    """
    live = GpuUnit.objects.filter(_LIVE)
    if role is not None:
        live = live.filter(role=role)
    return live.select_related("operation", "tenant").order_by("-id")


def unit_get(namespace: str, name: str, *, for_update: bool = False) -> GpuUnit:
    """Return an active unit that exists or is being created.

    `for_update` locks the row, so that operations on a unit are accepted one by one.

    Raises:
        NotFound: If no active unit has this name.
    """
    rows = units_live(UnitRole.ACTIVE).filter(namespace=namespace, name=name)
    found = (rows.select_for_update(of=("self",)) if for_update else rows).first()
    if found is None:
        msg = f"GPU unit '{name}' not found in namespace '{namespace}'."
        raise NotFound(msg)
    return found


def stock_live() -> QuerySet[GpuUnit]:
    """Return the stock units that match `_HELD`, newest first."""
    held = GpuUnit.objects.filter(_HELD)
    return held.select_related("operation", "tenant", "claimed_by").order_by("-id")


def stock_get(name: str) -> GpuUnit:
    """Return a stock unit that exists or is being created and that no unit has consumed.

    Raises:
        NotFound: If no such stock unit exists.
    """
    found = stock_live().filter(name=name).first()
    if found is None:
        msg = f"Stock unit '{name}' not found."
        raise NotFound(msg)
    return found


def stock_newest(name: str) -> GpuUnit:
    """Return the newest stock unit with this name, even if it is consumed or deleted.

    Raises:
        NotFound: If no stock unit has this name.
    """
    rows = GpuUnit.objects.filter(_STOCK, namespace=STOCK_NAMESPACE, name=name)
    found = rows.order_by("-id").first()
    return found or stock_get(name)


def stock_in(state: StockState) -> QuerySet[GpuUnit]:
    """Return the stock units in a state, newest first."""
    return stock_live().filter(_STATES[state])


def claimable(spec_name: str) -> QuerySet[GpuUnit]:
    """Return the claimable stock units of a GPU spec, oldest first."""
    return GpuUnit.objects.filter(CLAIMABLE, spec_name=spec_name).order_by("id")


def stock_state(row: GpuUnit) -> StockState:
    """Return the state of a stock unit: `DELETING` if it is consumed or deleted."""
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
    """Return the history of a unit, newest entry first."""
    return UnitHistory.objects.filter(unit=unit).select_related("operation").order_by("-id")


def units_due(limit: int) -> list[int]:
    """Return the ids of at most `limit` due units that no worker has claimed."""
    return due_ids(GpuUnit.objects.filter(_LIVE).exclude(uid=""), limit)


def stock_ready_count() -> int:
    """Return the number of claimable stock units."""
    return GpuUnit.objects.filter(CLAIMABLE).count()


def short_nodes() -> tuple[Shortage, ...]:
    """Return the recorded GPU shortages, sorted by node name."""
    known = ShortNode.objects.values_list("name", "gpus_offered", "gpus_held")
    return tuple(Shortage(*one) for one in known)


def active_count() -> int:
    """Return the number of active units that exist or are being created."""
    return GpuUnit.objects.filter(_LIVE, role=UnitRole.ACTIVE).count()


def capacity_by_spec() -> list[SpecCapacity]:
    """Return the number of units and of their GPUs for each GPU spec, sorted by name.

    A stopped unit holds no GPUs, and the GPUs of consumed stock belong to its consumer. The other
    fields have their default values; `units.capacity` sets them. Runs one query.
    """
    counts = {
        **{state.value: _HELD & is_so for state, is_so in _STATES.items()},
        "active": _LIVE & Q(role=UnitRole.ACTIVE),
        "seeded": _STOCK,
        "consumed": _STOCK & ~Q(consumed_by=""),
        "deleted": _STOCK & Q(consumed_by="", deleted_at__isnull=False),
    }
    holders = {**counts, "active": counts["active"] & ~Q(phase=UnitPhase.STOPPED)}
    gpus = {f"gpus_{use}": Sum("gpu", filter=holders[use], default=0) for use in _USES}
    rows = (
        GpuUnit.objects.order_by("spec_name")
        .values("spec_name")
        .annotate(**{name: Count("id", filter=which) for name, which in counts.items()}, **gpus)
    )
    return [
        SpecCapacity(
            name=row["spec_name"],
            gpus={use: row[f"gpus_{use}"] for use in _USES},
            **{name: row[name] for name in counts},
        )
        for row in cast("Iterable[dict[str, Any]]", rows)
    ]


def usage_by_tenant(tenants: Collection[int]) -> dict[int, dict[str, int]]:
    """Return the number of units, failed units and GPUs of each tenant that has units.

    The keys are the ids of the tenants.
    """
    live = GpuUnit.objects.filter(_LIVE, role=UnitRole.ACTIVE, tenant__in=tenants)
    rows = (
        live.order_by("tenant")
        .values("tenant")
        .annotate(
            units=Count("id"),
            failed=Count("id", filter=Q(phase=UnitPhase.FAILED)),
            gpus=Sum("gpu", filter=~Q(phase=UnitPhase.STOPPED), default=0),
        )
    )
    found = cast("Iterable[dict[str, int]]", rows)
    return {one.pop("tenant"): one for one in found}


def gpus_by_tenant() -> dict[str, int]:
    """Return the number of GPUs that the units of each tenant hold, by the tenant's name."""
    running = GpuUnit.objects.filter(_LIVE, role=UnitRole.ACTIVE, tenant__isnull=False)
    rows = running.exclude(phase=UnitPhase.STOPPED).order_by("tenant__name")
    return dict(rows.values_list("tenant__name").annotate(Sum("gpu")))


def is_unit_leftover(unit: Manifest, operation: Operation | None) -> bool:
    """Return whether a late write created `unit` after its operation had ended without it.

    The caller must read `unit` before `operation`. A seeding creates several stock units and
    records the UID of each in its row.
    """
    metadata = unit["metadata"]
    if metadata["namespace"] != STOCK_NAMESPACE:
        return is_leftover(unit, operation)
    if operation is None or operation.phase not in ENDED_PHASES:
        return False
    rows = operation.gpu_units.filter(role=UnitRole.STOCK, name=metadata["name"])
    uids = set(rows.values_list("uid", flat=True))
    return bool(uids) and metadata["uid"] not in uids and was_written_by_platform(unit)


def void_starts_to_retain() -> QuerySet[Operation]:
    """Return the failed and cancelled starts of units that are not deleted.

    If such a start is the last operation applied to its unit, deleting it would start the unit.
    """
    live = GpuUnit.objects.filter(pk=OuterRef("object_row"), deleted_at__isnull=True)
    return Operation.objects.filter(Exists(live), kind=START_KIND, phase__in=_VOID_PHASES)


def is_start_void(unit: Manifest) -> bool:
    """Return whether the last operation applied to `unit` is a failed or cancelled start.

    Such a unit counts as suspended (rule `voidstart` of the hand-over).
    """
    void = Operation.objects.filter(id__in={applied_operation(unit)} - {0}, kind=START_KIND)
    return bool(starts_void([unit], void.filter(phase__in=_VOID_PHASES).only(*_DECIDES)))


def starts_void(units: Sequence[Manifest], operations: Iterable[Operation]) -> set[str]:
    """Return the UIDs of the units whose last applied operation is a failed or cancelled start.

    `operations` must contain the operations that were last applied to the units.
    """
    void = {
        (one.pk, one.object_namespace, one.object_name)
        for one in operations
        if one.kind == START_KIND and one.phase in _VOID_PHASES
    }
    last_applied = ((applied_operation(unit), unit["metadata"]) for unit in units)
    return {
        metadata["uid"]
        for applied, metadata in last_applied
        if (applied, metadata["namespace"], metadata["name"]) in void
    }
