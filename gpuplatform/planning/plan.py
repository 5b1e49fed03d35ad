"""The types of planners: observations, actions, Events, status and plan. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeAlias, TypeVar

from gpuplatform.kube.kinds import Manifest, ResourceKind
from gpuplatform.lifecycle.conditions import Condition

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Absent:
    """The result of a successful read of an object that does not exist."""


@dataclass(frozen=True, slots=True)
class Present(Generic[T]):
    """The result of a successful read."""

    value: T


@dataclass(frozen=True, slots=True)
class Unknown:
    """The result of a failed read. Nothing may be deleted because of it."""

    message: str


Observation: TypeAlias = Absent | Present[T] | Unknown


def first_unknown(observed: Iterable[tuple[T, Observation[Any]]]) -> tuple[T, str] | None:
    """Return the name of the first failed read and its error message, or `None`."""
    for name, observation in observed:
        if isinstance(observation, Unknown):
            return name, observation.message
    return None


@dataclass(frozen=True, slots=True)
class Apply:
    """The action that applies a manifest by server-side apply.

    Set `force` only if the object was read and the platform owns it. Without `force`, an object
    that another client has created in the meantime causes a conflict.
    """

    kind: ResourceKind
    manifest: Manifest
    force: bool


@dataclass(frozen=True, slots=True)
class Create:
    """The action that creates an absent object. An object that exists by now is a conflict."""

    kind: ResourceKind
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Patch:
    """The action that merge-patches an object. `patch` contains the resource version."""

    kind: ResourceKind
    namespace: str
    name: str
    patch: Manifest


@dataclass(frozen=True, slots=True)
class Delete:
    """The action that deletes an object, if it has the UID and the resource version."""

    kind: ResourceKind
    namespace: str
    name: str
    uid: str
    resource_version: str = ""
    """The required resource version, or an empty string."""


Action: TypeAlias = Create | Apply | Patch | Delete


class EventType(StrEnum):
    """The types of a Kubernetes Event."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Event:
    """A Kubernetes Event.

    The message contains no time, count or generated id, so it can repeat.
    """

    type: EventType
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class StatusSummary:
    """A phase with its reason, message and cause."""

    phase: str
    reason: str = ""
    message: str = ""
    cause: str = ""
    """The cause that prevents a pod from running or becoming ready, or an empty string."""


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a resource. `fields` contains the fields that only its kind has."""

    phase: str
    conditions: tuple[Condition, ...]
    observed_generation: int
    fields: Mapping[str, Any] = field(default_factory=dict)
    cause: str = ""
    event: Event | None = None
    """The Event to write if the phase or the failure changes, or `None` for a transient phase."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The result of a planner.

    If `status` is `None`, the status remains unchanged. `requeue_after` is in seconds.
    """

    actions: Sequence[Action] = ()
    status: Status | None = None
    requeue_after: float | None = None
    on_error: Mapping[ResourceKind, Status] = field(default_factory=dict)
    """The status to write if an action on that kind fails. The error message is appended."""
    events: Sequence[Event] = ()
    """The Events to write after all actions have succeeded."""
