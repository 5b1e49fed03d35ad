"""Rules for resources that own a Deployment or a Job, and a Service. Pure; accept any input.

An app declares an `Owner`. Its planner uses the owner for the status, for the time of the next
run, and for the plan of a resource that is being deleted, has an invalid spec, could not be read,
or has a name conflict.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from gpuplatform.errors import InvalidSpec
from gpuplatform.kube.fields import field as read
from gpuplatform.kube.fields import items
from gpuplatform.kube.kinds import DEPLOYMENT, SERVICE, Manifest, ResourceKind
from gpuplatform.lifecycle.conditions import DEGRADED, Condition
from gpuplatform.lifecycle.explanations import Declared, Explanation
from gpuplatform.planning.comparison import contains
from gpuplatform.planning.ownership import (
    adoption,
    deletion_obstacle,
    deletion_of,
    is_controlled_by,
    is_orphan,
)
from gpuplatform.planning.plan import (
    Absent,
    Action,
    Apply,
    Event,
    EventType,
    Observation,
    Plan,
    Present,
    Status,
    StatusSummary,
    first_unknown,
)
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.causes import FAILURE_CAUSES
from gpuplatform.workloads.pod_settings import PodSettings
from gpuplatform.workloads.startup import POD_STARTUP_FAILED

PROGRESSING: Final = "Progressing"
READY: Final = "Ready"
FAILED: Final = "Failed"
TERMINATING: Final = "Terminating"

SOON_SECONDS: Final = 2.0
PROGRESS_SECONDS: Final = 15.0
FAILED_SECONDS: Final = 60.0
"""Delays in seconds before the next run if no event is observed earlier."""

INVALID_SPEC: Final = Declared(
    "InvalidSpec",
    Explanation(
        "The resource violates a validation rule. The message contains the field and the rule.",
        "Correct the field in the resource.",
    ),
)
NAME_CONFLICT: Final = Declared(
    "NameConflict",
    Explanation(
        "Another owner has an object with the required name. The platform does not change it.",
        "Delete or rename the conflicting object.",
    ),
)
STARTUP_FAILED: Final = Declared(
    POD_STARTUP_FAILED,
    Explanation(
        "A pod cannot start. The cause and the message contain the details.",
        "Correct the image, the command, the size or the Secret, according to the message.",
        causes=FAILURE_CAUSES,
    ),
)
PODS_UNREADABLE: Final = Declared(
    "PodStatusSyncFailed",
    Explanation(
        "The platform is not permitted to read the pods.",
        "Check the permissions of the platform on pods.",
    ),
)
FINALIZERS_REMAIN: Final = Declared(
    "FinalizersRemain",
    Explanation(
        "A finalizer of another program blocks the deletion. The message contains its name.",
        "Ensure that the program removes its finalizer.",
    ),
)


@dataclass(frozen=True, slots=True)
class Children:
    """The objects that a resource owns, and the settings of its pods, as read for one run."""

    deployment: Observation[Manifest]
    service: Observation[Manifest]
    pods: Observation[Sequence[Manifest]]
    settings: PodSettings
    """The settings that the pods depend on."""
    at: datetime | None = None
    """Time of the read. If it is `None`, failed image pulls have no grace period."""
    kind: ResourceKind = DEPLOYMENT
    """The kind of the object that runs the pods."""

    def workloads(self) -> Sequence[tuple[ResourceKind, Observation[Manifest]]]:
        """Return the objects that run pods, by kind."""
        return ((DEPLOYMENT, self.deployment),)

    @property
    def live_deployment(self) -> Manifest:
        """The Deployment, or an empty dict if it is absent or unknown."""
        return self.deployment.value if isinstance(self.deployment, Present) else {}


@dataclass(frozen=True, slots=True)
class Owner:
    """A kind of resource that owns objects that run pods, and a Service."""

    noun: str
    """Name of the kind in messages, such as `stock pool`."""
    label: str
    """Key of the label of owned objects. The value is the name of the resource."""
    uid_paths: Mapping[ResourceKind, Sequence[str]]
    """Path to the UID of the resource in owned objects, by kind. A kind without a path has no
    UID."""
    refused: Mapping[ResourceKind, str]
    """Reason if an object cannot be read or written, by its kind."""
    resting: str
    """Phase of a resource without desired pods: `Empty` or `Stopped`."""
    fields: Sequence[str]
    """Status fields of the kind. They keep their values if no newer values are known."""
    ended: str = ""
    """Phase of a resource whose program ended successfully, if there is one."""
    degraded: frozenset[str] = field(default=frozenset())
    """Reasons of a resource that is ready but degraded."""

    def status(
        self,
        resource: ResourceView,
        summary: StatusSummary,
        fields: Mapping[str, Any] | None = None,
    ) -> Status:
        """Return the complete status. Without `fields` the current values are kept."""
        known = {key: resource.status.get(key) for key in self.fields}
        current = {key: value for key, value in known.items() if value is not None}
        return Status(
            phase=str(summary.phase),
            conditions=tuple(self._conditions(resource, summary)),
            observed_generation=resource.generation,
            fields=current if fields is None else fields,
            cause=str(summary.cause),
            event=self._event(summary),
        )

    def failed(self, resource: ResourceView, reason: str, message: str) -> Status:
        """Return the status of a resource that cannot reach its desired state."""
        return self.status(resource, StatusSummary(FAILED, reason, message))

    def refusals(self, resource: ResourceView) -> dict[ResourceKind, Status]:
        """Return the status to report if an object cannot be written, by its kind."""
        return {kind: self.failed(resource, reason, "") for kind, reason in self.refused.items()}

    def ending(self, resource: ResourceView) -> Plan:
        """Return the plan of a resource that is being deleted.

        The plan reports finalizers that block the deletion. The garbage collector deletes the
        owned objects.
        """
        obstacle = deletion_obstacle(resource)
        if not obstacle:
            return Plan()
        summary = StatusSummary(TERMINATING, FINALIZERS_REMAIN.value, obstacle)
        return Plan(status=self.status(resource, summary))

    def invalid(
        self, resource: ResourceView, error: InvalidSpec, reason: str = INVALID_SPEC.value
    ) -> Plan:
        """Return the plan of a resource with an invalid spec. Running pods are unchanged."""
        details = "; ".join(f"{detail.field}: {detail.message}" for detail in error.details)
        return Plan(status=self.failed(resource, reason, details or str(error)))

    def obstacle(
        self, resource: ResourceView, children: Children, *, has_service: bool, progress: str
    ) -> Plan | None:
        """Return the plan of a resource whose objects cannot be changed, or `None` if they can.

        Args:
            resource: The resource.
            children: The objects that the resource owns.
            has_service: Whether the resource requires a Service. If not, a Service of another
                owner does not cause a conflict.
            progress: The reason while the resource is progressing.
        """
        unread = first_unknown(
            (
                (self.refused[SERVICE], children.service),
                *((self.refused[kind], found) for kind, found in children.workloads()),
                (PODS_UNREADABLE.value, children.pods),
            )
        )
        if unread is not None:
            status = self.failed(resource, unread[0], f"An object could not be read: {unread[1]}")
            return Plan(status=status, requeue_after=PROGRESS_SECONDS)
        places = [one for one in children.workloads() if one[0] == children.kind]
        places += [(SERVICE, children.service)] if has_service else []
        for kind, observation in places:
            if isinstance(observation, Present):
                found = observation.value
                if not is_controlled_by(found, resource.uid):
                    return self._conflict(resource, kind, found, progress)
        return None

    def is_own_orphan(self, resource: ResourceView, kind: ResourceKind, found: Manifest) -> bool:
        """Return whether `found` was created for this resource and has no owner reference.

        An object of an earlier resource with the same name has another UID.
        """
        path = self.uid_paths.get(kind)
        has_uid = path is None or read(found, *path) == resource.uid
        return has_uid and is_orphan(found, self.label, resource.name)

    def service_actions(
        self,
        resource: ResourceView,
        observation: Observation[Manifest],
        wanted: Manifest | None,
        *,
        may_create: bool = True,
    ) -> list[Action]:
        """Return the actions that create, update or (if `wanted` is `None`) delete the Service."""
        match observation:
            case Absent() if wanted is not None and may_create:
                return [Apply(SERVICE, wanted, force=False)]
            case Present(live) if is_controlled_by(live, resource.uid):
                if wanted is None:
                    return [deletion_of(SERVICE, live)]
                return applied(SERVICE, live, wanted)
            case _:
                return []

    def requeue_after(self, summary: StatusSummary) -> float | None:
        """Return the delay in seconds before the next run, or `None` if none is necessary."""
        return {PROGRESSING: PROGRESS_SECONDS, FAILED: FAILED_SECONDS}.get(summary.phase)

    def _conflict(
        self, resource: ResourceView, kind: ResourceKind, found: Manifest, progress: str
    ) -> Plan:
        name = f"{kind.kind} '{found['metadata']['name']}'"
        if self.is_own_orphan(resource, kind, found):
            message = f"The owner reference of {name} was removed; the platform restores it."
            status = self.status(resource, StatusSummary(PROGRESSING, progress, message))
            adopted = adoption(kind, found, resource)
            return Plan(actions=[adopted], status=status, requeue_after=SOON_SECONDS)
        if _is_of_predecessor(resource, found):
            message = f"{name} of the previous {self.noun} with this name is being deleted."
            status = self.status(resource, StatusSummary(PROGRESSING, progress, message))
            return Plan(status=status, requeue_after=SOON_SECONDS)
        message = f"{name} exists and is not controlled by this {self.noun}. Delete or rename it."
        status = self.failed(resource, NAME_CONFLICT.value, message)
        return Plan(status=status, requeue_after=FAILED_SECONDS)

    def _conditions(self, resource: ResourceView, summary: StatusSummary) -> Sequence[Condition]:
        """Return the condition `Ready`, and `Degraded` if the resource is or was degraded."""
        is_ready = summary.phase == READY
        is_degraded = is_ready and summary.reason in self.degraded
        statuses = {"Ready": is_ready}
        if is_degraded or DEGRADED in resource.condition_types:
            statuses[DEGRADED] = is_degraded
        return [
            Condition(
                type_,
                "True" if is_true else "False",
                str(summary.reason),
                summary.message,
                resource.generation,
            )
            for type_, is_true in statuses.items()
        ]

    def _event(self, summary: StatusSummary) -> Event | None:
        """Return the Event about the phase; `None` while the resource is progressing."""
        well = {READY, self.resting, self.ended}
        if summary.phase not in {*well, FAILED, TERMINATING}:
            return None
        is_well = summary.phase in well and summary.reason not in self.degraded
        type_ = EventType.NORMAL if is_well else EventType.WARNING
        return Event(type_, str(summary.reason), summary.message)


def deletion_event(noun: str) -> Event:
    """Return the Event about a deleted resource."""
    return Event(EventType.NORMAL, "Deleted", f"The {noun} was deleted.")


def applied(kind: ResourceKind, live: Manifest, wanted: Manifest) -> list[Action]:
    """Return the action that applies `wanted` to the object that was read, if they differ."""
    if contains(live, wanted):
        return []
    metadata = {**wanted["metadata"], "uid": live["metadata"]["uid"]}
    return [Apply(kind, {**wanted, "metadata": metadata}, force=True)]


def _is_of_predecessor(resource: ResourceView, found: Manifest) -> bool:
    """Return whether `found` belongs to a deleted resource of the same kind and name.

    The garbage collector deletes `found`.
    """
    return any(
        read(owner, "controller")
        and read(owner, "kind") == resource.kind
        and read(owner, "name") == resource.name
        for owner in items(found, "metadata", "ownerReferences")
    )
