"""The vocabulary of planners: observations, actions, Events, status and plan. Pure."""

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
    """It was read and does not exist."""


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
    """Return the name of the first read that failed, and the cluster's message."""
    for name, observation in observed:
        if isinstance(observation, Unknown):
            return name, observation.why
    return None


@dataclass(frozen=True, slots=True)
class Apply:
    """Set these fields by server-side apply.

    `force` only for an object that was read and is the platform's; without it, an object that
    another client created in the meantime is a conflict.
    """

    kind: ResourceKind
    manifest: Manifest
    force: bool


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object that was observed absent; one that exists by then is a conflict."""

    kind: ResourceKind
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Patch:
    """Merge-patch exactly the version of an object that was read: `patch` has its version."""

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
    """The types of a Kubernetes Event."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Event:
    """A Kubernetes Event. Its text repeats: it has no time, no count and no generated id."""

    type: EventType
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class StatusSummary:
    """A phase with its reason and cause, and the same for people."""

    phase: str
    reason: str = ""
    message: str = ""
    cause: str = ""
    """What keeps a pod from running or from being ready; empty: nothing."""


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a resource. `fields` are those of its kind, by their names in the CRD."""

    phase: str
    conditions: tuple[Condition, ...]
    observed_generation: int
    fields: Mapping[str, Any] = field(default_factory=dict)
    cause: str = ""
    event: Event | None = None
    """Written when the phase, or the failure, changes; None for a transient phase."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do next. `status` None leaves it unchanged; `requeue_after` is in seconds."""

    actions: Sequence[Action] = ()
    status: Status | None = None
    requeue_after: float | None = None
    on_error: Mapping[ResourceKind, Status] = field(default_factory=dict)
    """The status if an action on that kind is refused; the cluster's message is added."""
    events: Sequence[Event] = ()
    """Written once all actions have succeeded."""
