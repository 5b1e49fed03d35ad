"""The vocabulary of planners: what was observed, what to do, what to say.

Pure; the one part of this package that an app's `core` may import.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeAlias, TypeVar

from gpuplatform.kube.kinds import ResourceKind
from gpuplatform.lifecycle.conditions import Condition

Manifest: TypeAlias = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Absent:
    """It was looked for and is not there."""


@dataclass(frozen=True, slots=True)
class Present(Generic[T]):
    """It was read."""

    value: T


@dataclass(frozen=True, slots=True)
class Unknown:
    """The read failed. Never empty; nothing is deleted because of it."""

    why: str


Observation: TypeAlias = Absent | Present[T] | Unknown


def first_unknown(observed: Iterable[tuple[T, Observation[Any]]]) -> tuple[T, str] | None:
    """Return the first reading that failed, by what is said with it, and the cluster's words."""
    for name, observation in observed:
        if isinstance(observation, Unknown):
            return name, observation.why
    return None


@dataclass(frozen=True, slots=True)
class Apply:
    """Bring these fields about by server-side apply.

    `force` only for an object that was read and is ours; without it an object that somebody else
    put there meanwhile makes a conflict instead of being taken over.
    """

    kind: ResourceKind
    manifest: Manifest
    force: bool


@dataclass(frozen=True, slots=True)
class Create:
    """Make an object that was observed absent; one that is there by then is a conflict."""

    kind: ResourceKind
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Patch:
    """Change these fields of an object that is as it was read: `patch` carries its version."""

    kind: ResourceKind
    namespace: str
    name: str
    patch: Manifest


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete exactly the object with this UID."""

    kind: ResourceKind
    namespace: str
    name: str
    uid: str


Action: TypeAlias = Create | Apply | Patch | Delete


class EventType(StrEnum):
    """How Kubernetes sorts its Events."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Event:
    """What a person asks "when" about. Words that repeat: no time, no count, no generated id."""

    type: EventType
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Status:
    """What to write into the resource's status. `fields` are the kind's own, as in the CRD."""

    phase: str
    conditions: tuple[Condition, ...]
    observed_generation: int
    fields: Mapping[str, Any] = field(default_factory=dict)
    cause: str | None = None
    """What keeps a pod from running or from being ready, as a value."""
    event: Event | None = None
    """What to tell when this status is news; None for a state that is only passed through."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do next. `status` None leaves it as it is; `requeue_after` is seconds."""

    actions: Sequence[Action] = ()
    status: Status | None = None
    requeue_after: float | None = None
    on_error: Mapping[ResourceKind, Status] = field(default_factory=dict)
    """What to say when an action on that kind is refused; the cluster's words are added."""
    events: Sequence[Event] = ()
    """What to tell once all actions are done."""
