"""The rules that all resources which own a Deployment and a Service share. Pure and total.

An app declares an `Owner`; its planner uses it for the plans of a resource that may not be acted
on (it is being deleted, its spec is invalid, a read failed, a name is in use), for the status, and
for the time of the next run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from gpuplatform.errors import InvalidSpec
from gpuplatform.kube.fields import field as read
from gpuplatform.kube.fields import items
from gpuplatform.kube.kinds import DEPLOYMENT, SERVICE, Manifest, ResourceKind
from gpuplatform.lifecycle.conditions import DEGRADED, Condition, ConditionStatus
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
from gpuplatform.workloads.startup import POD_STARTUP_FAILED

PROGRESSING: Final = "Progressing"
READY: Final = "Ready"
FAILED: Final = "Failed"
TERMINATING: Final = "Terminating"

SOON_SECONDS: Final = 2.0
PROGRESS_SECONDS: Final = 15.0
FAILED_SECONDS: Final = 60.0
"""When to run again if no event is observed; the watch is faster."""

INVALID_SPEC: Final = Declared(
    "InvalidSpec",
    Explanation(
        "A resource written with kubectl breaks a rule; the message names field and rule.",
        "Correct the named field of the resource.",
    ),
)
NAME_CONFLICT: Final = Declared(
    "NameConflict",
    Explanation(
        "An object of that name exists and has another owner. It is not changed.",
        "Delete or rename the conflicting object.",
    ),
)
STARTUP_FAILED: Final = Declared(
    POD_STARTUP_FAILED,
    Explanation(
        "A pod does not start; the cause names the reason.",
        "Correct what the message names: the image, the command, the size or a Secret.",
        causes=FAILURE_CAUSES,
    ),
)
PODS_UNREADABLE: Final = Declared(
    "PodStatusSyncFailed",
    Explanation(
        "The cluster does not allow the platform to read the pods.",
        "Check the platform's permissions on pods.",
    ),
)
FINALIZERS_REMAIN: Final = Declared(
    "FinalizersRemain",
    Explanation(
        "A finalizer of another program blocks the deletion; the message names it.",
        "Have that program remove its finalizer.",
    ),
)


@dataclass(frozen=True, slots=True)
class Children:
    """What a resource owns, as one run of its reconciler read it."""

    deployment: Observation[Manifest]
    service: Observation[Manifest]
    pods: Observation[Sequence[Manifest]]
    at: datetime | None = None
    """When it was read; None: no failed pull has a grace period."""

    @property
    def live_deployment(self) -> Manifest:
        """The Deployment; empty if it is absent or unknown."""
        return self.deployment.value if isinstance(self.deployment, Present) else {}


@dataclass(frozen=True, slots=True)
class Owner:
    """A kind of resource that owns a Deployment and a Service."""

    noun: str
    """What one of them is called in a message: `stock pool`."""
    label: str
    """The label of its objects that has its name."""
    uid_paths: Mapping[ResourceKind, Sequence[str]]
    """Where its objects have its UID, by kind; a kind without one is known by its other labels."""
    service_refused: str
    """The reason while its Service cannot be read or written."""
    deployment_refused: str
    """The reason while its Deployment cannot be read or written."""
    resting: str
    """The phase of a resource that is to have no pods: `Empty` or `Stopped`."""
    fields: Sequence[str]
    """The status fields of the kind: the last values stay while nothing newer is known."""
    degraded: frozenset[str] = field(default=frozenset())
    """Reasons of a resource that is ready and works less well than wanted."""

    def status(
        self,
        resource: ResourceView,
        summary: StatusSummary,
        fields: Mapping[str, Any] | None = None,
    ) -> Status:
        """Return the whole status; without `fields` the last known ones stay."""
        known = {key: resource.status.get(key) for key in self.fields}
        return Status(
            phase=str(summary.phase),
            conditions=tuple(self._conditions(resource, summary)),
            observed_generation=resource.generation,
            fields=_present(known) if fields is None else fields,
            cause=str(summary.cause),
            event=self._event(summary),
        )

    def failed(self, resource: ResourceView, reason: str, message: str) -> Status:
        """Return the status of a resource that cannot be brought to its spec."""
        return self.status(resource, StatusSummary(FAILED, reason, message))

    def refusals(self, resource: ResourceView) -> dict[ResourceKind, Status]:
        """Return the status if the cluster refuses to write an object, by kind of object."""
        return {
            SERVICE: self.failed(resource, self.service_refused, ""),
            DEPLOYMENT: self.failed(resource, self.deployment_refused, ""),
        }

    def ending(self, resource: ResourceView) -> Plan:
        """Return the plan while the resource is being deleted: report what blocks the deletion.

        The garbage collector deletes what it owns.
        """
        obstacle = deletion_obstacle(resource)
        if not obstacle:
            return Plan()
        summary = StatusSummary(TERMINATING, FINALIZERS_REMAIN.value, obstacle)
        return Plan(status=self.status(resource, summary))

    def invalid(
        self, resource: ResourceView, error: InvalidSpec, reason: str = INVALID_SPEC.value
    ) -> Plan:
        """Return the plan while the spec is invalid: running pods keep running."""
        faults = "; ".join(f"{fault.field}: {fault.message}" for fault in error.details)
        return Plan(status=self.failed(resource, reason, faults or str(error)))

    def obstacle(
        self, resource: ResourceView, children: Children, *, has_service: bool, progress: str
    ) -> Plan | None:
        """Return the plan while the resource may not be acted on; None if it may.

        Args:
            resource: the resource.
            children: what it owns.
            has_service: whether it has a Service; otherwise a foreign Service does not conflict.
            progress: the reason while it is progressing.
        """
        unread = first_unknown(
            (
                (self.service_refused, children.service),
                (self.deployment_refused, children.deployment),
                (PODS_UNREADABLE.value, children.pods),
            )
        )
        if unread is not None:
            status = self.failed(resource, unread[0], f"Reading failed: {unread[1]}")
            return Plan(status=status, requeue_after=PROGRESS_SECONDS)
        places = [(DEPLOYMENT, children.deployment)]
        places += [(SERVICE, children.service)] if has_service else []
        for kind, observation in places:
            match observation:
                case Present(found) if not is_controlled_by(found, resource.uid):
                    return self._conflict(resource, kind, found, progress)
                case _:
                    continue
        return None

    def is_own_orphan(self, resource: ResourceView, kind: ResourceKind, found: Manifest) -> bool:
        """Return whether `found` was created for exactly this resource and has no owner now.

        An object that an earlier resource of the name left has the UID of that one.
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
        """Return what brings the Service to `wanted`; None: there is to be none."""
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
        """Return when to run again, in seconds; settled resources are left to the watch."""
        match summary.phase:
            case "Progressing":
                return PROGRESS_SECONDS
            case "Failed":
                return FAILED_SECONDS
            case _:
                return None

    def _conflict(
        self, resource: ResourceView, kind: ResourceKind, found: Manifest, progress: str
    ) -> Plan:
        name = f"{kind.kind} '{found['metadata']['name']}'"
        if self.is_own_orphan(resource, kind, found):
            message = f"{name} lost its owner reference; it is being restored."
            status = self.status(resource, StatusSummary(PROGRESSING, progress, message))
            adopted = adoption(kind, found, resource)
            return Plan(actions=[adopted], status=status, requeue_after=SOON_SECONDS)
        if _is_of_predecessor(resource, found):
            message = f"{name} of the previous {self.noun} of this name is being deleted."
            status = self.status(resource, StatusSummary(PROGRESSING, progress, message))
            return Plan(status=status, requeue_after=SOON_SECONDS)
        message = (
            f"{name} exists and is not controlled by this {self.noun}. It is not changed; delete"
            " or rename it."
        )
        status = self.failed(resource, NAME_CONFLICT.value, message)
        return Plan(status=status, requeue_after=FAILED_SECONDS)

    def _conditions(self, resource: ResourceView, summary: StatusSummary) -> Sequence[Condition]:
        """Return Ready, and Degraded of a resource that is, or was, degraded."""
        is_ready = summary.phase == READY
        is_degraded = is_ready and summary.reason in self.degraded
        stated = {"Ready": is_ready}
        if is_degraded or DEGRADED in resource.condition_types:
            stated[DEGRADED] = is_degraded
        return [
            Condition(
                type_, _truth(is_true), str(summary.reason), summary.message, resource.generation
            )
            for type_, is_true in stated.items()
        ]

    def _event(self, summary: StatusSummary) -> Event | None:
        """Return the Event about the phase; `None` while the resource is progressing."""
        if summary.phase not in {READY, self.resting, FAILED, TERMINATING}:
            return None
        is_well = summary.phase in {READY, self.resting} and summary.reason not in self.degraded
        type_ = EventType.NORMAL if is_well else EventType.WARNING
        return Event(type_, str(summary.reason), summary.message)


def deletion_event(noun: str) -> Event:
    """Return the Event of a resource that was deleted, with all that it owned."""
    return Event(EventType.NORMAL, "Deleted", f"The {noun} was deleted.")


def applied(kind: ResourceKind, live: Manifest, wanted: Manifest) -> list[Action]:
    """Return what applies `wanted` to exactly the object that was read; nothing if it has it."""
    if contains(live, wanted):
        return []
    metadata = {**wanted["metadata"], "uid": live["metadata"]["uid"]}
    return [Apply(kind, {**wanted, "metadata": metadata}, force=True)]


def _is_of_predecessor(resource: ResourceView, found: Manifest) -> bool:
    """Return whether `found` belongs to a deleted resource of the same kind and name.

    The garbage collector deletes it.
    """
    return any(
        read(owner, "controller")
        and read(owner, "kind") == resource.kind
        and read(owner, "name") == resource.name
        for owner in items(found, "metadata", "ownerReferences")
    )


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _truth(is_true: bool) -> ConditionStatus:  # noqa: FBT001
    return "True" if is_true else "False"
