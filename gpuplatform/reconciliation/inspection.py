"""What the cluster knows of one of our resources beyond its row: objects, Events, a log.

Read when a person asks, within one deadline; nothing is kept. One question that fails does not
spoil the others: its answer is missing and `faults` says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from gpuplatform.errors import ClusterError, ClusterRejected, OperatorUnavailable
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.fields import condition, field, items, number
from gpuplatform.kube.kinds import (
    DEPLOYMENT,
    EVENT,
    POD,
    REPLICA_SET,
    SERVICE,
    Manifest,
    ResourceKind,
)
from gpuplatform.kube.modes import get_cluster
from gpuplatform.planning.ownership import is_controlled_by
from gpuplatform.reconciliation import gate

READ_SECONDS: Final = 4.0
MOST_PODS: Final = 12
MOST_ASKED: Final = 6
"""Of so many objects the Events are read: each is one question."""
MOST_EVENTS: Final = 30
LOG_LINES: Final = 100
LOG_BYTES: Final = 64 * 1024

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Subject:
    """A resource of ours, and how its dependents are found."""

    kind: ResourceKind
    namespace: str
    name: str
    uid: str
    label: str
    """On its pods and ReplicaSets, with its name as the value."""
    dependents: str
    """The name of its Deployment and of its Service."""


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """An Event, flattened."""

    type: str
    reason: str
    message: str
    count: int
    object_kind: str
    object_name: str
    source: str
    first_seen: str
    last_seen: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found; an empty part with a fault is unknown, not empty."""

    resource: Manifest | None = None
    deployment: Manifest | None = None
    service: Manifest | None = None
    replica_sets: Sequence[Manifest] = ()
    pods: Sequence[Manifest] = ()
    events: Sequence[ObjectEvent] = ()
    log: str = ""
    log_of: str = ""
    faults: Sequence[str] = ()


def inspect(subject: Subject) -> Inspection:
    """Return what the cluster says of `subject` now; never raises for a cluster that is away."""
    state = gate.cluster_state()
    if state.failures:
        return Inspection(faults=(state.error or "The cluster does not answer.",))
    try:
        with deadline(READ_SECONDS):
            return _Questions(get_cluster(), subject).answers()
    except (ClusterError, OperatorUnavailable) as error:
        return Inspection(faults=(str(error),))


def read_event(event: Manifest) -> ObjectEvent:
    """Return an Event as the cluster has it, flattened."""
    made = field(event, "metadata", "creationTimestamp")
    last = field(event, "lastTimestamp") or field(event, "eventTime") or made
    first = field(event, "firstTimestamp") or field(event, "eventTime") or made
    source = field(event, "source", "component") or field(event, "reportingComponent")
    return ObjectEvent(
        type=_text(field(event, "type")),
        reason=_text(field(event, "reason")),
        message=_text(field(event, "message")),
        count=max(number(event, "count"), number(event, "series", "count"), 1),
        object_kind=_text(field(event, "involvedObject", "kind")),
        object_name=_text(field(event, "involvedObject", "name")),
        source=_text(source),
        first_seen=_text(first),
        last_seen=_text(last),
    )


def events_about(cluster: Cluster, namespace: str, uids: Sequence[str]) -> list[ObjectEvent]:
    """Return the Events about the objects with these UIDs, newest first."""
    found = [
        read_event(event)
        for uid in uids
        for event in cluster.list(
            EVENT, namespace=namespace, field_selector=f"involvedObject.uid={uid}"
        ).items
    ]
    return sorted(found, key=lambda event: event.last_seen, reverse=True)


def is_ready(pod: Manifest) -> bool:
    """Say whether a pod is ready."""
    return condition(pod, "Ready").get("status") == "True"


class _Questions:
    """Asks one after the other; after one that nobody answered, no further."""

    def __init__(self, cluster: Cluster, subject: Subject) -> None:
        self._cluster = cluster
        self._subject = subject
        self._faults: list[str] = []
        self._is_unreachable = False

    def answers(self) -> Inspection:
        cluster, subject = self._cluster, self._subject
        place = {"namespace": subject.namespace}
        resource = self._asked(lambda: cluster.get(subject.kind, subject.name, **place))
        deployment = self._asked(lambda: cluster.get(DEPLOYMENT, subject.dependents, **place))
        service = self._asked(lambda: cluster.get(SERVICE, subject.dependents, **place))
        roots = _uids([self._own(deployment)])
        replica_sets = self._owned_by(REPLICA_SET, roots)
        owners = [*roots, *_uids(replica_sets)]
        pods = sorted(self._owned_by(POD, owners), key=is_ready)[:MOST_PODS]
        asked = [self._own(deployment), *replica_sets[:1], *pods]
        uids = [subject.uid, *_uids(asked)][:MOST_ASKED]
        events = self._asked(lambda: events_about(cluster, subject.namespace, uids)) or []
        log_of, log = self._log(pods[0]) if pods else ("", "")
        return Inspection(
            resource=resource if field(resource, "metadata", "uid") == subject.uid else None,
            deployment=self._own(deployment),
            service=self._own(service),
            replica_sets=replica_sets,
            pods=pods,
            events=events[:MOST_EVENTS],
            log=log,
            log_of=log_of,
            faults=tuple(dict.fromkeys(self._faults)),
        )

    def _asked(self, question: Callable[[], Answer | None]) -> Answer | None:
        if self._is_unreachable:
            return None
        try:
            return question()
        except ClusterError as error:
            self._faults.append(str(error))
            self._is_unreachable = gate.is_unreachable(error)
            return None

    def _own(self, found: Manifest | None) -> Manifest | None:
        is_own = found is not None and is_controlled_by(found, self._subject.uid)
        return found if is_own else None

    def _owned_by(self, kind: ResourceKind, owners: Sequence[str]) -> list[Manifest]:
        """Return the subject's objects of a kind that one of `owners` controls, newest first."""
        subject = self._subject
        if not owners:
            return []
        selector = f"{subject.label}={subject.name}"
        place = {"namespace": subject.namespace, "label_selector": selector}
        found = self._asked(lambda: self._cluster.list(kind, **place))
        listed = [] if found is None else found.items
        mine = [one for one in listed if any(is_controlled_by(one, uid) for uid in owners)]
        return sorted(mine, key=_made, reverse=True)

    def _log(self, pod: Manifest) -> tuple[str, str]:
        """Return the name of the container that has most to say, and the end of its log."""
        name = _text(field(pod, "metadata", "name"))
        containers = items(pod, "spec", "containers")
        container = _text(field(containers[0], "name")) if containers else ""
        previous = _waits_after_a_run(pod)
        try:
            text = self._asked_for_log(name, container, previous=previous)
        except ClusterRejected:
            return name, ""  # Nothing has run yet: its state says why.
        return f"{name}, its last run" if previous else name, text or ""

    def _asked_for_log(self, pod: str, container: str, *, previous: bool) -> str | None:
        if self._is_unreachable:
            return None
        try:
            return self._cluster.pod_log(
                pod,
                namespace=self._subject.namespace,
                container=container,
                tail_lines=LOG_LINES,
                limit_bytes=LOG_BYTES,
                previous=previous,
            )
        except ClusterRejected:
            raise
        except ClusterError as error:
            self._faults.append(str(error))
            return None


def _waits_after_a_run(pod: Manifest) -> bool:
    """Say whether the first container has run, ended, and waits to be started again."""
    statuses = items(pod, "status", "containerStatuses")
    return bool(
        statuses
        and number(statuses[0], "restartCount")
        and field(statuses[0], "state", "waiting") is not None
    )


def _uids(found: Sequence[Manifest | None]) -> list[str]:
    return [uid for one in found if (uid := _text(field(one, "metadata", "uid")))]


def _made(one: Manifest) -> str:
    return _text(field(one, "metadata", "creationTimestamp"))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
