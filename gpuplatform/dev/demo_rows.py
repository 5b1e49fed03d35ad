"""Database rows for load tests of the admin, without the corresponding objects in the cluster.

`manage.py demo_load` creates the rows in the database of a development data directory. All names
start with `PREFIX`, which also selects the rows to delete. The rows are not due, and their
resource version is higher than any other, so no process reconciles them or marks them as deleted.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection, transaction

from gpuplatform.clock import now, rfc3339
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.workloads.causes import StartupCause
from inventory.models import GpuSpec, StockPool
from inventory.phases import PoolPhase, PoolReason
from units.models import GpuUnit, UnitHistory
from units.phases import STOCK_NAMESPACE, UnitPhase, UnitReason, UnitRole

PREFIX: Final = "demo-load-"
BATCH: Final = 2_000
SPECS: Final = 12
NEWER_THAN_ANY_LIST: Final = 2**62

_PULL = (
    'Pod {name}-0: container runtime-worker: ErrImagePull: manifest for "registry.example.invalid/'
    'team/{name}:1" unknown'
)
_UNSCHEDULABLE = "0/40 nodes are available: 40 Insufficient nvidia.com/gpu."
_SEEDED: Final = 8
_TABLES: Final = (
    ("units_unithistory", "unit_id IN (SELECT id FROM units_gpuunit WHERE name LIKE %s)"),
    ("units_gpuunit", "name LIKE %s"),
    ("inventory_stockpool", "name LIKE %s"),
    ("inventory_gpuspec", "name LIKE %s"),
    ("operations_operation", "operation_id LIKE %s"),
)
"""Tables that contain demo rows, in the order of deletion, with conditions that select them."""


@dataclass(frozen=True, slots=True)
class _State:
    """A phase with the reasons that a pool and a unit report in this phase."""

    phase: str
    pool_reason: str
    unit_reason: str
    cause: str = ""
    message: str = ""


def _failed(cause: StartupCause, message: str) -> _State:
    reasons = (PoolReason.POD_STARTUP_FAILED, UnitReason.POD_STARTUP_FAILED)
    return _State(UnitPhase.FAILED, *reasons, cause, message)


_READY = _State(UnitPhase.READY, PoolReason.DEPLOYMENT_READY, UnitReason.UNIT_READY)
_STATES: Final = (
    *((_READY,) * 15),
    _failed(StartupCause.IMAGE_PULL_FAILED, _PULL),
    _failed(StartupCause.UNSCHEDULABLE, _UNSCHEDULABLE),
    _State(UnitPhase.PROGRESSING, PoolReason.DEPLOYMENT_PROGRESSING, UnitReason.UNIT_PROGRESSING),
    _State(UnitPhase.PENDING, "", ""),
    _State(UnitPhase.TERMINATING, "", ""),
)
"""States that are assigned to the demo rows in turn; repeated entries occur more often."""


def is_loaded() -> bool:
    """Return whether the database contains demo rows."""
    return Operation.objects.filter(operation_id__startswith=PREFIX).exists()


def load(number: int) -> Iterator[int]:
    """Create `number` rows of each kind and yield the number created so far after each batch.

    The kinds are operations, stock pools, stock units and active units.
    """
    tenant, start = tenant_by_name(), now()
    GpuSpec.objects.bulk_create(_spec(n) for n in range(SPECS))
    for first in range(0, number, BATCH):
        numbers = range(first, min(first + BATCH, number))
        with transaction.atomic():
            _add(tenant, start, numbers)
        yield numbers.stop
    _analyze()


def remove() -> int:
    """Delete all demo rows and return the number of deleted rows."""
    with transaction.atomic(), connection.cursor() as cursor:
        deleted = 0
        for table, condition in _TABLES:
            # Table names are constants. The driver can quote only values.
            cursor.execute(f"DELETE FROM {table} WHERE {condition}", [f"{PREFIX}%"])  # noqa: S608
            deleted += cursor.rowcount
    return deleted


def _analyze() -> None:
    """Update the planner statistics without waiting for autovacuum."""
    with connection.cursor() as cursor:
        for table, _ in _TABLES:
            cursor.execute(f"VACUUM ANALYZE {table}")


def _add(tenant: Tenant, start: datetime, numbers: range) -> None:
    operations = Operation.objects.bulk_create(_operation(tenant, start, n) for n in numbers)
    pairs = list(zip(numbers, operations, strict=True))
    StockPool.objects.bulk_create(_pool(tenant, start, n, operation) for n, operation in pairs)
    stock = GpuUnit.objects.bulk_create(_stock(start, n, operation) for n, operation in pairs)
    units = GpuUnit.objects.bulk_create(
        _unit(tenant, start, n, operation, source)
        for (n, operation), source in zip(pairs, stock, strict=True)
    )
    UnitHistory.objects.bulk_create(
        UnitHistory(
            unit=unit,
            at=unit.phase_since,
            phase=unit.phase,
            reason=unit.reason,
            cause=unit.cause,
            message=unit.message,
            operation=unit.operation,
        )
        for unit in units
    )


def _spec(n: int) -> GpuSpec:
    return GpuSpec(name=_spec_name(n), cpu="8", memory="64Gi", gpu=1, description="demo load")


def _spec_name(n: int) -> str:
    return f"{PREFIX}g{n % SPECS}"


def _at(start: datetime, n: int) -> datetime:
    return start - timedelta(seconds=n % 400_000, milliseconds=n % 997)


def _operation(tenant: Tenant, start: datetime, n: int) -> Operation:
    is_failed, is_seeding = n % 20 == 15, n % 50 == 7
    moment, total = _at(start, n), _SEEDED if is_seeding else 1
    return Operation(
        tenant=tenant,
        operation_id=f"{PREFIX}{n}",
        asked_by="make demo-load",
        kind="stock.seed" if is_seeding else "unit.create",
        payload={"specName": _spec_name(n)},
        request_hash="0" * 64,
        hash_version=1,
        phase=OperationPhase.FAILED if is_failed else OperationPhase.SUCCEEDED,
        error_code="name_conflict" if is_failed else "",
        error_message="The name is in use." if is_failed else "",
        object_kind="GPUUnit",
        object_namespace=tenant.namespace,
        object_name=f"{PREFIX}unit-{n}",
        progress_done=0 if is_failed else total,
        progress_total=total,
        created_at=moment,
        updated_at=moment,
        ended_at=moment + timedelta(milliseconds=120),
    )


def _pool(tenant: Tenant, start: datetime, n: int, operation: Operation) -> StockPool:
    state = _STATES[n % len(_STATES)]
    shared = _shared(start, n, state, f"{PREFIX}pool-{n}")
    image = f"registry.example.com/team/image-{n % 300}:1"
    return StockPool(
        **{
            **shared,
            "phase": PoolPhase(state.phase),
            "reason": state.pool_reason,
            "tenant": tenant,
            "operation": operation,
            "namespace": tenant.namespace,
            "spec": {"specName": _spec_name(n), "replicas": 2, "gpu": 1, "image": image},
            "desired_replicas": 2,
            "available_replicas": 2 if state is _READY else 0,
        }
    )


def _stock(start: datetime, n: int, operation: Operation) -> GpuUnit:
    state = _STATES[(n + 3) % len(_STATES)]
    is_over = n % 2 == 0
    shared = _shared(start, n, state, f"{PREFIX}stock-{n}")
    moment = _at(start, n)
    return GpuUnit(
        **{
            **shared,
            "role": UnitRole.STOCK,
            "namespace": STOCK_NAMESPACE,
            "operation": operation,
            "ordinal": 1,
            "spec": {"specName": _spec_name(n), "gpu": 1, "memory": "64Gi"},
            "consumed_by": _uid("unit", n) if is_over else "",
            "consumed_at": moment if is_over else None,
            "deletion_requested_at": moment if is_over else None,
            "deleted_at": moment if is_over else None,
        }
    )


def _unit(
    tenant: Tenant, start: datetime, n: int, operation: Operation, source: GpuUnit
) -> GpuUnit:
    image = f"registry.example.com/team/image-{n % 300}:1"
    name = f"{PREFIX}unit-{n}"
    template = {"ports": [{"name": "web", "port": 8080}]}
    return GpuUnit(
        **_shared(start, n, _STATES[n % len(_STATES)], name),
        role=UnitRole.ACTIVE,
        tenant=tenant,
        namespace=tenant.namespace,
        operation=operation,
        image=image,
        spec={"specName": _spec_name(n), "image": image, "gpu": 1, "template": template},
        service_name=f"unit-{name}",
        source_name=source.name if source.consumed_by else "",
        source_uid=source.uid if source.consumed_by else "",
        ready_replicas=1 if n % len(_STATES) < _STATES.count(_READY) else 0,
    )


def _uid(kind: str, n: int) -> str:
    return f"{PREFIX}{kind}-{n}"


def _shared(start: datetime, n: int, state: _State, name: str) -> dict[str, Any]:
    moment = _at(start, n)
    message = state.message.format(name=name)
    condition = {
        "type": "Ready",
        "status": "True" if state is _READY else "False",
        "reason": state.unit_reason,
        "message": message,
        "lastTransitionTime": rfc3339(moment),
    }
    return {
        "name": name,
        "uid": name,
        "spec_name": _spec_name(n),
        "phase": state.phase,
        "reason": state.unit_reason,
        "cause": state.cause,
        "message": message,
        "conditions": [condition],
        "generation": 1,
        "observed_generation": 1,
        "resource_version": NEWER_THAN_ANY_LIST,
        "phase_since": moment,
        "created_at": moment,
        "last_sync_at": moment,
    }
