"""Reads the owned objects, the Events and a log of a custom resource for a page or the API.

All requests share one time limit, and nothing is stored. If a request fails, its result is absent
and `faults` contains the error; the other requests are still sent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from gpuplatform.errors import OperatorUnavailable
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.errors import ClusterError, ClusterRejected
from gpuplatform.kube.fields import condition, field, items, number, text
from gpuplatform.kube.kinds import (
    DEPLOYMENT,
    EVENT,
    JOB,
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
"""Maximum number of objects whose Events are read. Each object requires one request."""
MAX_EVENTS: Final = 30
LOG_LINES: Final = 100
LOG_BYTES: Final = 64 * 1024

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Subject:
    """A custom resource, and the label and the name by which its objects are found."""

    kind: ResourceKind
    namespace: str
    name: str
    uid: str
    label: str
    """Key of the label of its pods and ReplicaSets. The value is the name of the resource."""
    dependents: str
    """Name of its Deployment, its Job and its Service."""
    has_job: bool = False
    """Whether a Job may run its pods."""


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """The displayed fields of a Kubernetes Event."""

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
    """The results. If `faults` is not empty, an empty field can mean that the value is unknown."""

    resource: Manifest | None = None
    deployment: Manifest | None = None
    job: Manifest | None = None
    service: Manifest | None = None
    replica_sets: Sequence[Manifest] = ()
    pods: Sequence[Manifest] = ()
    events: Sequence[ObjectEvent] = ()
    log: str = ""
    log_of: str = ""
    faults: Sequence[str] = ()


def inspect(subject: Subject) -> Inspection:
    """Return the current state of `subject`. Errors of the cluster are in `faults`."""
    state = gate.cluster_state()
    if state.failures:
        return Inspection(faults=(state.error or "The cluster does not respond.",))
    try:
        with deadline(READ_SECONDS):
            return _Requests(get_cluster(), subject).inspection()
    except (ClusterError, OperatorUnavailable) as error:
        return Inspection(faults=(str(error),))


def read_event(event: Manifest) -> ObjectEvent:
    """Return the displayed fields of an Event manifest."""
    created = text(event, "metadata", "creationTimestamp")
    return ObjectEvent(
        type=text(event, "type"),
        reason=text(event, "reason"),
        message=text(event, "message"),
        count=max(number(event, "count"), number(event, "series", "count"), 1),
        object_kind=text(event, "involvedObject", "kind"),
        object_name=text(event, "involvedObject", "name"),
        source=text(event, "source", "component") or text(event, "reportingComponent"),
        first_seen=text(event, "firstTimestamp") or text(event, "eventTime") or created,
        last_seen=text(event, "lastTimestamp") or text(event, "eventTime") or created,
    )


def events_about(cluster: Cluster, namespace: str, uids: Sequence[str]) -> list[ObjectEvent]:
    """Return the Events about the objects with the UIDs, newest first."""
    found = [
        read_event(event)
        for uid in uids
        for event in cluster.list(
            EVENT, namespace=namespace, field_selector=f"involvedObject.uid={uid}"
        ).items
    ]
    return sorted(found, key=lambda event: event.last_seen, reverse=True)


def is_ready(pod: Manifest) -> bool:
    """Return whether the pod is ready."""
    return condition(pod, "Ready").get("status") == "True"


class _Requests:
    """The requests of an inspection, sent one by one until the cluster does not respond."""

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
        job = self._send(self._job) if subject.has_job else None
        roots = _uids([self._own(deployment), self._own(job)])
        replica_sets = self._owned_by(REPLICA_SET, roots)
        owners = [*roots, *_uids(replica_sets)]
        pods = sorted(self._owned_by(POD, owners), key=is_ready)[:MAX_PODS]
        objects = [self._own(deployment), self._own(job), *replica_sets[:1], *pods]
        uids = [subject.uid, *_uids(objects)][:MAX_OBJECTS]
        events = self._send(lambda: events_about(cluster, subject.namespace, uids)) or []
        log_of, log = self._log(pods[0]) if pods else ("", "")
        return Inspection(
            resource=resource if field(resource, "metadata", "uid") == subject.uid else None,
            deployment=self._own(deployment),
            job=self._own(job),
            service=self._own(service),
            replica_sets=replica_sets,
            pods=pods,
            events=events[:MAX_EVENTS],
            log=log,
            log_of=log_of,
            faults=tuple(dict.fromkeys(self._faults)),
        )

    def _job(self) -> Manifest | None:
        subject = self._subject
        return self._cluster.get(JOB, subject.dependents, namespace=subject.namespace)

    def _send(self, request: Callable[[], ResultT | None]) -> ResultT | None:
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
        """Return the objects of `kind` that one of the `owners` controls, newest first."""
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
        """Return the title and the last lines of a log; after a crash, of the previous run."""
        name = text(pod, "metadata", "name")
        containers = items(pod, "spec", "containers")
        previous = _has_crashed(pod)

        def read() -> tuple[str, str]:
            try:
                log = self._cluster.pod_log(
                    name,
                    namespace=self._subject.namespace,
                    container=text(containers[0], "name") if containers else "",
                    tail_lines=LOG_LINES,
                    limit_bytes=LOG_BYTES,
                    previous=previous,
                )
            except ClusterRejected:
                return name, ""  # No container has run yet; the status of the pod explains why.
            return f"{name}, previous run" if previous else name, log or ""

        return self._send(read) or (name, "")


def _has_crashed(pod: Manifest) -> bool:
    """Return whether the first container has run and is waiting for its restart."""
    statuses = items(pod, "status", "containerStatuses")
    return bool(
        statuses
        and number(statuses[0], "restartCount")
        and field(statuses[0], "state", "waiting") is not None
    )


def _uids(found: Sequence[Manifest | None]) -> list[str]:
    return [uid for one in found if (uid := text(one, "metadata", "uid"))]


def _created(one: Manifest) -> str:
    return text(one, "metadata", "creationTimestamp")
