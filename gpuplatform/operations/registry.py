"""The kinds of operation; each app makes its own known from its `ready()`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from gpuplatform.errors import InvariantBroken
from gpuplatform.kube.client import Cluster
from gpuplatform.operations.models import Operation


@dataclass(frozen=True, slots=True)
class Done:
    """It is in the cluster (or gone from it); `resource` is the object as read back."""

    resource: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """It cannot go on yet, for a reason that passes."""

    reason: str
    message: str
    seconds: float
    is_failure: bool = False
    """Whether it was tried in vain, so that the next failure is waited out for longer."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A deterministic refusal. `resource` is what stands in the way, if it was read."""

    code: str
    message: str
    retryable: bool = False
    resource: dict[str, Any] | None = None


Outcome: TypeAlias = Done | Waiting | Refused


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Something has to be written down before it goes on, or it is far enough to be worth it.

    The driver calls `record` in a transaction that begins with locking the operation under its
    lease, and then `execute` again with the operation as it is by then. An outcome that `record`
    returns is the operation's; such a `record` has written nothing.
    """

    record: Callable[[Operation], Outcome | None]


Step: TypeAlias = Outcome | Checkpoint


@dataclass(frozen=True, slots=True)
class OperationKind:
    """How one kind of operation is done.

    `execute` asks the cluster; repeating it is safe; it opens no transaction and writes no row.
    `settle` writes the rows of the outcome, inside the transaction that ends the operation.
    """

    name: str
    execute: Callable[[Cluster, Operation], Step]
    settle: Callable[[Operation, Done | Refused], None]


_kinds: dict[str, OperationKind] = {}


def register(kind: OperationKind) -> None:
    """Make a kind known.

    Raises:
        InvariantBroken: the name is taken by another.
    """
    if _kinds.setdefault(kind.name, kind) is not kind:
        msg = f"the kind of operation {kind.name} is declared twice"
        raise InvariantBroken(msg)


def kind_named(name: str) -> OperationKind:
    """Return the kind.

    Raises:
        InvariantBroken: a row names a kind that this release does not know.
    """
    try:
        return _kinds[name]
    except KeyError as error:
        msg = f"this release does not know the kind of operation {name}"
        raise InvariantBroken(msg) from error


def kind_names() -> list[str]:
    """Return the names of all kinds, sorted."""
    return sorted(_kinds)
