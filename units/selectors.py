"""Queries of GPU units in both roles."""

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final, cast

from django.db import connection
from django.db.models import (
    BooleanField,
    Case,
    Count,
    Exists,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Value,
    When,
)
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce

from gpuplatform.errors import NotFound
from gpuplatform.formats.image import canonical
from gpuplatform.operations.models import Operation
from gpuplatform.operations.selectors import OPERATION_UNREAD
from gpuplatform.postgresql.compiled import CompiledRows
from gpuplatform.reconciliation.leases import due_ids
from gpuplatform.samples.capacity import SpecCapacity
from gpuplatform.workloads.resources import amounts
from inventory.models import GpuSpec
from inventory.selectors import (
    is_spec_catalogued,
    nodes_all,
    spec_requirements,
    specs_enabled,
)
from units.core.capacity import ACTIVE
from units.core.fit import units_on_empty_nodes
from units.models import (
    CLAIMABLE,
    RELEASED,
    WITHHELD,
    CapacityRequest,
    GpuUnit,
    UnitHistory,
)
from units.phases import (
    STOCK_NAMESPACE,
    RequestPhase,
    UnitPhase,
    UnitReason,
    UnitRole,
    WarmImageState,
)
from units.waiting_units import with_waits


class StockState(StrEnum):
    """The mutually exclusive states of a stock unit that is neither consumed nor deleted."""

    STARTING = "starting"
    READY = "ready"
    WITHHELD = "withheld"
    """Its node would not accept the pod of a unit, so that it cannot be claimed."""
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
    StockState.WITHHELD: _FREE & WITHHELD,
    StockState.STARTING: _FREE & ~Q(phase__in=(UnitPhase.READY, UnitPhase.FAILED)) & ~WITHHELD,
    StockState.FAILED: _FREE & Q(phase=UnitPhase.FAILED),
    StockState.DELETING: _DELETING,
}
"""The condition of each state, for stock units that match `_HELD`."""


def units_live(role: UnitRole | None = None) -> QuerySet[GpuUnit]:
    """Return the units that exist or are being created, newest first.

    If `role` is specified, return only units of this role. The attribute `starts_warm` of a unit
    is whether the node of its stock unit was known to have its image at the claim. `with_waits`
    explains the attributes of units that wait.
    """
    live: QuerySet[GpuUnit] = GpuUnit.objects.filter(_LIVE)
    live = with_waits(live).annotate(  # type: ignore[no-redef]  # declared
        starts_warm=Exists(_warm_sources()),
        is_spec_catalogued=is_spec_catalogued(),
    )
    if role is not None:
        live = live.filter(role=role)
    return live.select_related("operation", "tenant").order_by("-id")


def _warm_sources() -> QuerySet[GpuUnit]:
    """Return the source of the outer unit, if it was claimed for its node."""
    sources = GpuUnit.objects.filter(_STOCK, uid=OuterRef("source_uid"), is_warm_start=True)
    return sources.exclude(uid="")


def is_waiting_for_stock(operation: Operation) -> bool:
    """Return whether the request for capacity of an operation is open."""
    requests = CapacityRequest.objects.filter(operation=operation, phase=RequestPhase.OPEN)
    return requests.exists()


def unit_get(namespace: str, name: str, *, for_update: bool = False) -> GpuUnit:
    """Return an active unit that exists or is being created.

    `for_update` locks the row, so that operations on a unit are accepted one by one.

    Raises:
        NotFound: If no active unit has this name.
    """
    if for_update:
        found = _units_named(namespace, name).select_for_update(of=("self",)).first()
    else:
        found = next(iter(_UNIT.objects(namespace, name)), None)
    if found is None:
        msg = f"GPU unit '{name}' not found in namespace '{namespace}'."
        raise NotFound(msg)
    return found


def _units_named(namespace: str, name: str) -> QuerySet[GpuUnit]:
    return units_live(UnitRole.ACTIVE).filter(namespace=namespace, name=name)


_UNIT: Final = CompiledRows(_units_named)


def stock_live() -> QuerySet[GpuUnit]:
    """Return the stock units that match `_HELD`, newest first."""
    held: QuerySet[GpuUnit] = GpuUnit.objects.filter(_HELD)
    held = held.annotate(  # type: ignore[no-redef]  # declared
        is_spec_catalogued=is_spec_catalogued()
    )
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


def specs_available() -> QuerySet[GpuSpec]:
    """Return the enabled GPU specs with the number `ready` of their claimable stock units."""
    stock = GpuUnit.objects.filter(CLAIMABLE, spec_name=OuterRef("name")).order_by()
    number = stock.values("spec_name").annotate(number=Count("id")).values("number")
    return specs_enabled().annotate(ready=Coalesce(Subquery(number), 0))


def spec_available(name: str) -> GpuSpec:
    """Return an enabled GPU spec as `specs_available` does.

    Raises:
        NotFound: If the catalogue has no enabled GPU spec with this name.
    """
    found = specs_available().filter(name=name).first()
    if found is None:
        msg = f"GPU spec '{name}' not found."
        raise NotFound(msg)
    return found


def quantities_of(spec: GpuSpec) -> dict[str, str]:
    """Return the quantities that a unit of a GPU spec requests, by resource name."""
    sizes = {name: size for name in ("cpu", "memory") if (size := getattr(spec, name))}
    return {**sizes, **amounts(spec.gpu, spec.resource_name, spec.resources)}


def units_possible(spec_name: str) -> int | None:
    """Return the maximum number of units that the nodes of a GPU spec could have if empty.

    Returns `None` if it is not known: if no node has the labels that the GPU spec requires, or if
    the GPU spec is not in the catalogue. Runs two queries.
    """
    spec = GpuSpec.objects.filter(name=spec_name).first()
    if spec is None:
        return None
    labels = spec_requirements(spec).node_selector
    rows = nodes_all().filter(is_present=True, labels__contains=dict(labels))
    nodes = [
        {"metadata": {"labels": labels}, "status": {"capacity": total, "allocatable": offered}}
        for total, offered in rows.values_list("capacity", "allocatable")
    ]
    return units_on_empty_nodes(quantities_of(spec), labels, nodes)


def claimable_stock(
    spec_name: str, *, stock_name: str = "", resource_name: str = ""
) -> QuerySet[GpuUnit]:
    """Return the claimable stock units of a GPU spec, oldest first.

    A disabled GPU spec has no claimable stock units. If `stock_name` is specified, return only the
    stock unit with this name. If `resource_name` is specified, return only stock units that hold
    this resource: a unit that starts again keeps the resource of its spec.
    """
    disabled = GpuSpec.objects.filter(name=OuterRef("spec_name"), is_enabled=False)
    free = claimable(spec_name).filter(~Exists(disabled))
    wanted = {"name": stock_name, "resource_name": resource_name}
    return free.filter(**{column: value for column, value in wanted.items() if value})


_NODES_WITH: Final = """
SELECT name FROM units_nodeimages WHERE images @> jsonb_build_array(%(image)s::text)
UNION
SELECT node FROM units_warmimage WHERE image = %(image)s AND state = %(present)s
"""
"""Part of each claim. The compilation of a queryset would take most of its time."""


def first_unlocked(rows: QuerySet[GpuUnit]) -> QuerySet[GpuUnit, Any]:
    """Return the id of the first of `rows` that no other transaction has locked."""
    return rows.select_for_update(skip_locked=True, of=("self",)).values("pk")[:1]


def nodes_with(image: str) -> list[str]:
    """Return the names of the nodes that are known to have an image, and none without an image."""
    if not image:
        return []
    values = {"image": canonical(image), "present": WarmImageState.PRESENT.value}
    with connection.cursor() as cursor:
        cursor.execute(_NODES_WITH, values)
        return [name for (name,) in cursor.fetchall()]


def stock_state(row: GpuUnit) -> StockState:
    """Return the state of a stock unit: `DELETING` if it is consumed or deleted."""
    is_over = row.deletion_requested_at or row.deleted_at or row.consumed_by
    if is_over or row.phase == UnitPhase.TERMINATING:
        return StockState.DELETING
    if row.claimed_by_id is not None:
        return StockState.CLAIMED
    match row.phase, row.reason:
        case UnitPhase.READY, _:
            return StockState.READY
        case UnitPhase.FAILED, _:
            return StockState.FAILED
        case UnitPhase.PROGRESSING, UnitReason.STOCK_WITHHELD:
            return StockState.WITHHELD
        case _:
            return StockState.STARTING


def last_failures(rows: Sequence[GpuUnit]) -> dict[int, UnitHistory]:
    """Return the newest failure of each unit that has failed within the retention, by id."""
    found = _FAILURES.objects([row.pk for row in rows])
    return {one.unit_id: one for one in found}


def _newest_failures(units: Sequence[int]) -> QuerySet[UnitHistory]:
    """Return the newest failure of each of some units with its operation, by the ids of units."""
    condition = "units_unithistory.unit_id = ANY(%s)"
    of_units = RawSQL(condition, [units], output_field=BooleanField())  # noqa: S611 - constant
    failures = UnitHistory.objects.filter(of_units, phase=UnitPhase.FAILED)
    newest = failures.order_by("unit_id", "-id").distinct("unit_id")
    return newest.select_related("operation").defer(*OPERATION_UNREAD)


_FAILURES: Final = CompiledRows(_newest_failures)


def history_of(unit: GpuUnit) -> QuerySet[UnitHistory]:
    """Return the history of a unit, newest entry first."""
    return UnitHistory.objects.filter(unit=unit).select_related("operation").order_by("-id")


def units_due(limit: int) -> list[int]:
    """Return the ids of at most `limit` due units that no worker has claimed."""
    return due_ids(GpuUnit.objects.filter(_LIVE).exclude(uid=""), limit)


def stock_ready_count() -> int:
    """Return the number of claimable stock units."""
    return GpuUnit.objects.filter(CLAIMABLE).count()


def stock_withheld(spec_name: str) -> Counter[str]:
    """Return the number of withheld stock units of a GPU spec, by the cause of their nodes."""
    withheld = GpuUnit.objects.filter(_HELD & _STATES[StockState.WITHHELD], spec_name=spec_name)
    return Counter(withheld.order_by().values_list("cause", flat=True))


def uses_by_owner() -> dict[str, str]:
    """Return the use of the GPUs of each existing unit by its UID: a stock state, or active.

    The GPUs of consumed stock belong to its consumer. Runs one query.
    """
    is_active = Q(role=UnitRole.ACTIVE) | ~Q(consumed_by="")
    use = Case(
        When(is_active, then=Value(ACTIVE)),
        *(When(is_so, then=Value(state.value)) for state, is_so in _STATES.items()),
    )
    live = GpuUnit.objects.filter(_LIVE).exclude(uid="").order_by()
    return dict(live.annotate(use=use).values_list("uid", "use"))


def active_count() -> int:
    """Return the number of active units that exist or are being created."""
    return GpuUnit.objects.filter(_LIVE, role=UnitRole.ACTIVE).count()


def capacity_by_spec() -> list[SpecCapacity]:
    """Return the number of units and of their GPUs for each GPU spec, sorted by name.

    A stopped or ended unit holds no GPUs, and the GPUs of consumed stock belong to its consumer.
    The other fields have their default values; `units.capacity` sets them. Runs one query.
    """
    found: dict[str, SpecCapacity] = {}
    for row in _counts_by_resource():
        name, resource = row.pop("spec_name"), row.pop("resource_name")
        gpus = {use: row.pop(f"gpus_{use}") for use in _USES}
        known = found.get(name) or SpecCapacity(name=name)
        sums = {key: getattr(known, key) + number for key, number in row.items()}
        held = {**known.gpus_by_resource, resource: gpus}
        found[name] = known.model_copy(update={**sums, "gpus_by_resource": held})
    return list(found.values())


def _counts_by_resource() -> Iterable[dict[str, Any]]:
    """Return the numbers of units and of their GPUs by GPU spec and resource."""
    counts = {
        **{state.value: _HELD & is_so for state, is_so in _STATES.items()},
        "active": _LIVE & Q(role=UnitRole.ACTIVE),
        "seeded": _STOCK,
        "consumed": _STOCK & ~Q(consumed_by=""),
        "deleted": _STOCK & Q(consumed_by="", deleted_at__isnull=False),
    }
    holders = {**counts, "active": counts["active"] & ~RELEASED}
    gpus = {f"gpus_{use}": Sum("gpu", filter=holders[use], default=0) for use in _USES}
    rows = (
        GpuUnit.objects.order_by("spec_name", "resource_name")
        .values("spec_name", "resource_name")
        .annotate(**{name: Count("id", filter=which) for name, which in counts.items()}, **gpus)
    )
    return cast("Iterable[dict[str, Any]]", rows)
