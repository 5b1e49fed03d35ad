"""The kinds of operation; each app registers its own in `ready()`."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from django.db.models import QuerySet

from gpuplatform.errors import InvariantBroken, PhaseConflict
from gpuplatform.kube.client import Cluster
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted


@dataclass(frozen=True, slots=True)
class Done:
    """The change is stored in the cluster; `resource` is the object as the cluster returned it."""

    resource: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """The operation cannot continue yet, for a temporary reason."""

    reason: str
    """Member of an app's enum of waits, such as `OperationWait`."""
    message: str
    seconds: float
    is_failure: bool = False
    """Whether an attempt failed, so that the backoff increases."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A deterministic rejection. `resource` is the conflicting object, if it was read."""

    code: str
    message: str
    retryable: bool = False
    resource: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The operation was cancelled, and has reached a point where it can end."""


Outcome: TypeAlias = Done | Waiting | Failed | Cancelled


def settled_outcome(outcome: Done | Failed | Cancelled) -> Done | Failed:
    """Return the outcome for the app's `settle`: a cancellation releases what a failure would."""
    if isinstance(outcome, Cancelled):
        return Failed("cancelled", "An operator cancelled it.")
    return outcome


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A step is done that has to be recorded before the next one.

    The driver calls `record` in a transaction in which the operation is locked under its lease,
    and then `execute` again with the operation as it is now. If `record` returns an outcome, it is
    the operation's, and `record` has written nothing.
    """

    record: Callable[[Operation], Outcome | None]


Step: TypeAlias = Outcome | Checkpoint


class Cancellable(Enum):
    """When an operator may cancel an operation of a kind."""

    NEVER = "never"
    """Accepting it has already changed something, or it must not be left undone."""
    UNSTARTED = "unstarted"
    """Until its first claim: after that, a write without an answer may have been applied."""
    WAITING = "waiting"
    """While no worker executes it: what a late write creates is a leftover."""
    BETWEEN_STEPS = "between steps"
    """At any time: a worker that executes it ends it after the current step is recorded."""


@dataclass(frozen=True, slots=True)
class RetryRequest:
    """A failed operation, and the operationID under which its remainder is requested again."""

    failed: Operation
    operation_id: str

    def payload(self) -> dict[str, Any]:
        """Return the payload of the failed request with the new operationID, for its model."""
        return {**self.failed.payload, "operationID": self.operation_id}

    def of_same_object(self, accepted: Accepted) -> Accepted:
        """Return the accepted retry, if its object is that of the failed operation.

        Raises:
            PhaseConflict: the object was deleted, and another one has its name.
        """
        if accepted.operation.object_row != self.failed.object_row:
            msg = f"The object of '{self.failed}' was deleted; another one has its name."
            raise PhaseConflict(msg)
        return accepted


def done_when_accepted(_: Cluster, __: Operation) -> Step:
    """Execute nothing: accepting the operation has done everything."""
    return Done()


def settle_nothing(_: Operation, __: Done | Failed) -> None:
    """Write no row: accepting the operation has written all of them."""


@dataclass(frozen=True, slots=True)
class OperationKind:
    """One kind of operation.

    `execute` calls the cluster; it can be repeated, opens no transaction and writes no row.
    `settle` writes the rows of the outcome, in the transaction that ends the operation; a
    cancelled operation is settled like a failed one. `retry` sends the request of a failed
    operation to the app's service again; without it, failures of the kind are permanent. Kinds
    without `needs_cluster` are also executed while the cluster is unavailable. `follow_up` runs
    after a success is recorded; if the worker is killed before it, a reconciler does the same.
    `retained` returns ended operations that still decide something about their object: they are
    not deleted.
    """

    name: str
    execute: Callable[[Cluster, Operation], Step] = done_when_accepted
    settle: Callable[[Operation, Done | Failed], None] = settle_nothing
    cancellable: Cancellable = Cancellable.NEVER
    retry: Callable[[RetryRequest], Accepted] | None = None
    needs_cluster: bool = True
    follow_up: Callable[[Cluster, Operation, Done], None] | None = None
    retained: Callable[[], QuerySet[Operation]] | None = None


_kinds: dict[str, OperationKind] = {}


def register(kind: OperationKind) -> None:
    """Register a kind.

    Raises:
        InvariantBroken: another kind has the name.
    """
    if _kinds.setdefault(kind.name, kind) is not kind:
        msg = f"the kind of operation {kind.name} is registered twice"
        raise InvariantBroken(msg)


def operation_kind(name: str) -> OperationKind:
    """Return the kind of that name.

    Raises:
        InvariantBroken: this release does not know the kind.
    """
    try:
        return _kinds[name]
    except KeyError as error:
        msg = f"this release does not know the kind of operation {name}"
        raise InvariantBroken(msg) from error


def operations_retained() -> list[QuerySet[Operation]]:
    """Return the operations that are not deleted after their retention."""
    return [kind.retained() for kind in _kinds.values() if kind.retained is not None]


def kind_names(*, without_cluster: bool = False) -> list[str]:
    """Return the names of all kinds, sorted, or of those that do not need the cluster."""
    return sorted(
        name for name, kind in _kinds.items() if not (without_cluster and kind.needs_cluster)
    )
