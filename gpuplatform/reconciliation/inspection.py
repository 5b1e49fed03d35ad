"""The state of a custom resource in the cluster beyond its row: objects, Events, a log.

Read on request of a person, within one time limit; nothing is stored. A failed request affects no
other: its result is missing, and `faults` has the error.
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
MAX_PODS: Final = 12
MAX_OBJECTS: Final = 6
"""Maximum number of objects whose Events are read; each takes one request."""
MAX_EVENTS: Final = 30
LOG_LINES: Final = 100
LOG_BYTES: Final = 64 * 1024

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Subject:
    """A custom resource, and how to find the objects that it owns."""

    kind: ResourceKind
    namespace: str
    name: str
    uid: str
    label: str
    """Label of its pods and ReplicaSets; the value is its name."""
    dependents: str
    """Name of its Deployment and of its Service."""


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """A Kubernetes Event with the fields that pages show."""

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
    """The results; an empty field together with a fault is unknown, not empty."""

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
    """Return the current state of `subject`; an unreachable cluster is a fault, not an error."""
    state = gate.cluster_state()
    if state.failures:
        return Inspection(faults=(state.error or "The cluster does not answer.",))
    try:
        with deadline(READ_SECONDS):
            return _Requests(get_cluster(), subject).inspection()
    except (ClusterError, OperatorUnavailable) as error:
        return Inspection(faults=(str(error),))


def read_event(event: Manifest) -> ObjectEvent:
    """Return the displayed fields of a raw Event."""
    created = field(event, "metadata", "creationTimestamp")
    last = field(event, "lastTimestamp") or field(event, "eventTime") or created
    first = field(event, "firstTimestamp") or field(event, "eventTime") or created
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
    """Return whether a pod is ready."""
    return condition(pod, "Ready").get("status") == "True"


class _Requests:
    """Sends one request after the other; none after one that the cluster did not answer."""

    def __init__(self, cluster: Cluster, subject: Subject) -> None:
        self._cluster = cluster
        self._subject = subject
        self._faults: list[str] = []
        self._is_unreachable = False

    def inspection(self) -> Inspection:
        cluster, subject = self._cluster, self._subject
        place = {"namespace": subject.namespace}
        resource = self._send(lambda: cluster.get(subject.kind, subject.name, **place))
        deployment = self._send(lambda: cluster.get(DEPLOYMENT, subject.dependents, **place))
        service = self._send(lambda: cluster.get(SERVICE, subject.dependents, **place))
        roots = _uids([self._own(deployment)])
        replica_sets = self._owned_by(REPLICA_SET, roots)
        owners = [*roots, *_uids(replica_sets)]
        pods = sorted(self._owned_by(POD, owners), key=is_ready)[:MAX_PODS]
        objects = [self._own(deployment), *replica_sets[:1], *pods]
        uids = [subject.uid, *_uids(objects)][:MAX_OBJECTS]
        events = self._send(lambda: events_about(cluster, subject.namespace, uids)) or []
        log_of, log = self._log(pods[0]) if pods else ("", "")
        return Inspection(
            resource=resource if field(resource, "metadata", "uid") == subject.uid else None,
            deployment=self._own(deployment),
            service=self._own(service),
            replica_sets=replica_sets,
            pods=pods,
            events=events[:MAX_EVENTS],
            log=log,
            log_of=log_of,
            faults=tuple(dict.fromkeys(self._faults)),
        )

    def _send(self, request: Callable[[], Answer | None]) -> Answer | None:
        if self._is_unreachable:
            return None
        try:
            return request()
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
        found = self._send(lambda: self._cluster.list(kind, **place))
        listed = [] if found is None else found.items
        owned = [one for one in listed if any(is_controlled_by(one, uid) for uid in owners)]
        return sorted(owned, key=_created, reverse=True)

    def _log(self, pod: Manifest) -> tuple[str, str]:
        """Return the name of a pod's log and its last lines; after a crash, of the last run."""
        name = _text(field(pod, "metadata", "name"))
        containers = items(pod, "spec", "containers")
        container = _text(field(containers[0], "name")) if containers else ""
        previous = _has_crashed(pod)
        try:
            text = self._read_log(name, container, previous=previous)
        except ClusterRejected:
            return name, ""  # No container has run yet; the state of the pod explains why.
        return f"{name}, its last run" if previous else name, text or ""

    def _read_log(self, pod: str, container: str, *, previous: bool) -> str | None:
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


def _has_crashed(pod: Manifest) -> bool:
    """Return whether the first container has run, and waits for its restart."""
    statuses = items(pod, "status", "containerStatuses")
    return bool(
        statuses
        and number(statuses[0], "restartCount")
        and field(statuses[0], "state", "waiting") is not None
    )


def _uids(found: Sequence[Manifest | None]) -> list[str]:
    return [uid for one in found if (uid := _text(field(one, "metadata", "uid")))]


def _created(one: Manifest) -> str:
    return _text(field(one, "metadata", "creationTimestamp"))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
