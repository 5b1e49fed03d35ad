"""Why open operations wait, even if no worker could claim them. Reads only rows.

A worker records why an operation that it executed waits. An operation that no worker can claim,
for example because the cluster does not respond, has no such record.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from django.db.models import Subquery

from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase, OperationWait
from gpuplatform.operations.registry import kind_names
from gpuplatform.operations.selectors import earlier_operations
from gpuplatform.reconciliation.models import ClusterState

_NO_WORKER: Final = "No worker has claimed the operation yet."
_RECOVERY: Final = "The cluster and the database do not match. An operator must run a recovery."


@dataclass(frozen=True, slots=True)
class Wait:
    """The reason why an operation waits, and since when."""

    reason: str
    message: str
    since: datetime


class _Obstacle(NamedTuple):
    """The reason why no worker can claim an operation, and its human-readable text."""

    reason: str
    message: str


def waits_of(operations: Iterable[Operation]) -> Mapping[int, Wait]:
    """Return the reasons why operations wait, by id, with at most two queries.

    An operation that has ended or that a worker executes does not wait.
    """
    waiting = [one for one in operations if one.phase == OperationPhase.PENDING]
    if not waiting:
        return {}
    state = ClusterState.objects.filter(pk=ClusterState.SINGLETON).first() or ClusterState()
    earlier = _earlier(waiting)
    return {one.pk: _wait(one, state, earlier.get(one.pk, "")) for one in waiting}


def deletion_messages(kind: str, names: Mapping[int, str]) -> Mapping[int, str]:
    """Return the messages about accepted deletions of objects that wait, by id of the row.

    A deletion that a worker has executed is not included.

    Args:
        kind: The kind of the operations.
        names: The names of the objects whose deletion was accepted, by id of the row.
    """
    if not names:
        return {}
    waiting = Operation.objects.filter(
        kind=kind,
        phase=OperationPhase.PENDING,
        object_name__in=names.values(),
        object_row__in=names,
    )
    waits = waits_of(waiting)
    return {
        one.object_row: f"The deletion waits: {waits[one.pk].message}"
        for one in waiting
        if one.object_row is not None
    }


def _wait(operation: Operation, state: ClusterState, earlier: str) -> Wait:
    """Return the wait of a pending operation; `earlier` is the operationID that precedes it."""
    obstacle = _obstacle(operation, state, earlier)
    reason, message = obstacle or (operation.reason, operation.message)
    since = operation.reason_since if reason == operation.reason else None
    return Wait(reason, message, since or operation.updated_at)


def _obstacle(operation: Operation, state: ClusterState, earlier: str) -> _Obstacle | None:
    """Return the reason why no worker can claim the operation, the most urgent one first.

    Returns `None` if the reason that a worker recorded applies.
    """
    is_away = bool(state.recovery_reason or state.failures)
    if is_away and operation.kind not in kind_names(without_cluster=True):
        if state.recovery_reason:
            return _Obstacle(OperationWait.RECOVERY_NEEDED, _RECOVERY)
        return _Obstacle(OperationWait.CLUSTER_UNAVAILABLE, state.error)
    if earlier:
        message = f"The earlier operation '{earlier}' on the object has not ended."
        return _Obstacle(OperationWait.EARLIER_OPERATION, message)
    if operation.reason:
        return None
    return _Obstacle(OperationWait.NO_WORKER, _NO_WORKER)


def _earlier(operations: Sequence[Operation]) -> Mapping[int, str]:
    """Return the operationID of the oldest open operation before each of `operations`, by id."""
    oldest = earlier_operations().order_by("id").values("operation_id")[:1]
    rows = Operation.objects.filter(pk__in=[one.pk for one in operations])
    found = rows.annotate(earlier=Subquery(oldest)).values_list("id", "earlier")
    return {number: earlier for number, earlier in found if earlier}
