"""Registry of the kinds of operation. Each app registers its kinds in `ready()`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from django.db.models import QuerySet

from gpuplatform.errors import InvariantBroken, PhaseConflict
from gpuplatform.kube.client import Cluster
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.operations.services import Accepted


@dataclass(frozen=True, slots=True)
class Done:
    """The outcome of a change that is stored in the cluster, which returned `resource`."""

    resource: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """The outcome of an operation that waits `seconds` before the next attempt."""

    reason: str
    """A member of an app's enum of waits, such as `OperationWait`."""
    message: str
    seconds: float
    is_failure: bool = False
    """Whether the attempt failed, which increases the backoff."""
    still: Callable[[], bool] | None = None
    """Returns, under the lock of the operation, whether it must still wait. If not, the operation
    is due immediately: what it waited for happened after the attempt."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The outcome of a permanent failure. `resource` is the conflicting object, if known."""

    code: str
    message: str
    retryable: bool = False
    resource: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The outcome of an operation that was cancelled and can end now."""


Outcome: TypeAlias = Done | Waiting | Failed | Cancelled


def settled_outcome(outcome: Done | Failed | Cancelled) -> Done | Failed:
    """Return the outcome to pass to `settle`, which handles a cancellation like a failure."""
    if isinstance(outcome, Cancelled):
        return Failed("cancelled", "An operator cancelled the operation.")
    return outcome


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A completed step that must be recorded before the next step.

    The driver calls `record` in a transaction with the locked operation, and then `execute` again
    with the updated operation. If `record` returns an outcome, the operation ends or waits with
    it in a later transaction, so that what `record` wrote must be valid without it.
    """

    record: Callable[[Operation], Outcome | None]


Step: TypeAlias = Outcome | Checkpoint


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The place of a waiting operation in a queue."""

    position: int
    """The position, starting at 1."""
    seconds: tuple[int, int] | None
    """The estimated range of the remaining waiting time in seconds, or `None` if unknown."""

    @property
    def ahead(self) -> int:
        """The number of operations before this one."""
        return self.position - 1


class Cancellable(Enum):
    """The conditions under which an operator can cancel an operation of a kind."""

    NEVER = "never"
    """Its acceptance already changes rows, or it must be completed."""
    UNSTARTED = "unstarted"
    """Until a worker first claims it: after that, its write may already be applied."""
    WAITING = "waiting"
    """While no worker executes it. An object that a late write creates is a leftover."""
    BETWEEN_STEPS = "between steps"
    """At any time. If a worker executes it, it ends after its current step is recorded."""


@dataclass(frozen=True, slots=True)
class RetryRequest:
    """A failed operation and the operationID of its retry."""

    failed: Operation
    operation_id: str

    def payload(self) -> dict[str, Any]:
        """Return the request body of the retry: the failed payload with the new operationID."""
        return {**self.failed.payload, "operationID": self.operation_id}

    def of_same_object(self, accepted: Accepted) -> Accepted:
        """Return the accepted retry if it has the same object as the failed operation.

        Raises:
            PhaseConflict: If the object was deleted and another object has its name.
        """
        if accepted.operation.object_row != self.failed.object_row:
            msg = (
                f"The object of '{self.failed}' was deleted, and another object has its name."
                " Send a new request."
            )
            raise PhaseConflict(msg)
        return accepted


def done_when_accepted(_: Cluster, __: Operation) -> Step:
    """Succeed immediately: the acceptance of the operation already changed the rows."""
    return Done()


def settle_nothing(_: Operation, __: Done | Failed) -> None:
    """Write no rows: the acceptance of the operation already wrote them."""


@dataclass(frozen=True, slots=True)
class OperationKind:
    """A kind of operation."""

    name: str
    execute: Callable[[Cluster, Operation], Step] = done_when_accepted
    """Changes the cluster. Must be idempotent, open no transaction and write no rows."""
    settle: Callable[[Operation, Done | Failed], None] = settle_nothing
    """Writes the rows of the outcome in the transaction that ends the operation."""
    cancellable: Cancellable = Cancellable.NEVER
    retry: Callable[[RetryRequest], Accepted] | None = None
    """Sends the request of a failed operation again. Without it, failures are permanent."""
    needs_cluster: bool = True
    """Whether the operation waits while the cluster is unavailable."""
    follow_up: Callable[[Cluster, Operation, Done], None] | None = None
    """Runs after a success is recorded. A reconciler does the same if the worker is killed."""
    queue_places: Callable[[Collection[int]], Mapping[int, QueuePlace]] | None = None
    """Returns the places of the operations that wait in a queue, by the id of the operation."""
    retained: Callable[[], QuerySet[Operation]] | None = None
    """Returns ended operations that are not deleted because their objects still need them."""


_kinds: dict[str, OperationKind] = {}


def queue_places(operations: Sequence[Operation]) -> dict[int, QueuePlace]:
    """Return the places of the operations that wait in a queue, by the id of the operation."""
    found: dict[int, QueuePlace] = {}
    for kind in {one.kind for one in operations if one.phase == OperationPhase.PENDING}:
        places = _kinds[kind].queue_places if kind in _kinds else None
        if places is not None:
            found |= places([one.pk for one in operations if one.kind == kind])
    return found


def register(kind: OperationKind) -> None:
    """Register a kind.

    Raises:
        InvariantBroken: If another kind with the same name is registered.
    """
    if _kinds.setdefault(kind.name, kind) is not kind:
        msg = f"the kind of operation {kind.name} is registered twice"
        raise InvariantBroken(msg)


def operation_kind(name: str) -> OperationKind:
    """Return the kind with this name.

    Raises:
        InvariantBroken: If this release does not know the kind.
    """
    try:
        return _kinds[name]
    except KeyError as error:
        msg = f"this release does not know the kind of operation {name}"
        raise InvariantBroken(msg) from error


def operations_retained() -> list[QuerySet[Operation]]:
    """Return the querysets of operations that are kept after their retention."""
    return [kind.retained() for kind in _kinds.values() if kind.retained is not None]


def kind_names(*, without_cluster: bool = False) -> list[str]:
    """Return the sorted names of all kinds, or only of kinds that do not need the cluster."""
    return sorted(
        name for name, kind in _kinds.items() if not (without_cluster and kind.needs_cluster)
    )
