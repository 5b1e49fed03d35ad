"""The kinds of operation; each app makes its own known from its `ready()`."""

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
    """It is in the cluster (or gone from it); `resource` is the object as read back."""

    resource: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """It cannot go on yet, for a reason that passes."""

    reason: str
    """A word that is explained beside the phases, such as an `OperationWait`."""
    message: str
    seconds: float
    is_failure: bool = False
    """Whether it was tried in vain, so that the next failure is waited out for longer."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A deterministic refusal. `resource` is what stands in the way, if it was read."""

    code: str
    message: str
    retryable: bool = False
    resource: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """An operator asked that it stops, and it has come to where it may."""


Outcome: TypeAlias = Done | Waiting | Failed | Cancelled


def settled_outcome(outcome: Done | Failed | Cancelled) -> Done | Failed:
    """Return what an app settles: what was cancelled gives back what a refusal would."""
    if isinstance(outcome, Cancelled):
        return Failed("cancelled", "An operator cancelled it.")
    return outcome


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Something has to be written down before it goes on, or it is far enough to be worth it.

    The driver calls `record` in a transaction that begins with locking the operation under its
    lease, and then `execute` again with the operation as it is by then. An outcome that `record`
    returns is the operation's; such a `record` has written nothing.
    """

    record: Callable[[Operation], Outcome | None]


Step: TypeAlias = Outcome | Checkpoint


class Cancellable(Enum):
    """When an operator may cancel an operation of a kind."""

    NEVER = "never"
    """Accepting it has changed something already, or what it does must not be left undone."""
    UNSTARTED = "unstarted"
    """While no worker has ever taken it: a write of it may have arrived without an answer."""
    WAITING = "waiting"
    """While no worker has it: what a lost or late write of it made is a leftover."""
    BETWEEN_PARTS = "between parts"
    """At any time: a worker that has it ends it when the part that it is at is written down."""


@dataclass(frozen=True, slots=True)
class RetryRequest:
    """The rest of a request that failed, to be asked for under another operationID."""

    failed: Operation
    operation_id: str

    def payload(self) -> dict[str, Any]:
        """Return what was asked for, as the request's model takes it."""
        return {**self.failed.payload, "operationID": self.operation_id}

    def of_same_object(self, accepted: Accepted) -> Accepted:
        """Return what was accepted, if it is about the object that the failed one was about.

        Raises:
            PhaseConflict: that one is gone, and another has its name.
        """
        if accepted.operation.object_row != self.failed.object_row:
            msg = f"What the job '{self.failed}' was about is gone; another has its name."
            raise PhaseConflict(msg)
        return accepted


@dataclass(frozen=True, slots=True)
class OperationKind:
    """How one kind of operation is done.

    `execute` asks the cluster; repeating it is safe; it opens no transaction and writes no row.
    `settle` writes the rows of the outcome, inside the transaction that ends the operation; a
    cancelled one is settled like a refused one. `retry` asks the app's service for the same again;
    a kind without it cannot fail in a way that passes. A kind whose `execute` asks the cluster
    nothing is done while that one is away. `follow_up` is done at once when a success is written
    down; a worker that dies before it loses nothing that a reconciler would not do. `retained` are
    those that ended and still say something about their object: they are not forgotten.
    """

    name: str
    execute: Callable[[Cluster, Operation], Step]
    settle: Callable[[Operation, Done | Failed], None]
    cancellable: Cancellable = Cancellable.NEVER
    retry: Callable[[RetryRequest], Accepted] | None = None
    needs_cluster: bool = True
    follow_up: Callable[[Cluster, Operation, Done], None] | None = None
    retained: Callable[[], QuerySet[Operation]] | None = None


_kinds: dict[str, OperationKind] = {}


def register(kind: OperationKind) -> None:
    """Make a kind known.

    Raises:
        InvariantBroken: the name is taken by another.
    """
    if _kinds.setdefault(kind.name, kind) is not kind:
        msg = f"the kind of operation {kind.name} is declared twice"
        raise InvariantBroken(msg)


def operation_kind(name: str) -> OperationKind:
    """Return the kind.

    Raises:
        InvariantBroken: a row names a kind that this release does not know.
    """
    try:
        return _kinds[name]
    except KeyError as error:
        msg = f"this release does not know the kind of operation {name}"
        raise InvariantBroken(msg) from error


def operations_retained() -> list[QuerySet[Operation]]:
    """Return the operations that are not forgotten, however long ago they ended."""
    return [kind.retained() for kind in _kinds.values() if kind.retained is not None]


def kind_names(*, without_cluster: bool = False) -> list[str]:
    """Return the names of all kinds, sorted; of those done while the cluster is away."""
    return sorted(
        name for name, kind in _kinds.items() if not (without_cluster and kind.needs_cluster)
    )
