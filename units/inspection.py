"""What the cluster knows of a unit beyond its row: the log of its pod, and the Events about it.

Read when somebody asks, within one deadline; nothing is kept.
"""

from collections.abc import Iterator
from typing import Final

from gpuplatform.errors import (
    ClusterError,
    ClusterRejected,
    FieldError,
    InvalidSpec,
    NotFound,
    OperatorUnavailable,
    PhaseConflict,
)
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.fields import field, items
from gpuplatform.kube.kinds import DEPLOYMENT, POD, REPLICA_SET, Manifest, ResourceKind
from gpuplatform.kube.modes import get_cluster
from gpuplatform.planning.ownership import UNIT_LABEL
from gpuplatform.reconciliation.inspection import ObjectEvent, events_about
from units.core.names import UNIT_UID_LABEL, deployment_name
from units.models import GpuUnit

READ_SECONDS: Final = 5.0
MAX_LOG_BYTES: Final = 1024 * 1024
MOST_OBJECTS: Final = 12
"""A unit has one pod; more objects than this are the remains of a long row of failures."""


def unit_log(unit: GpuUnit, *, tail: int, previous: bool, container: str | None) -> str:
    """Return the end of what the unit's newest pod wrote.

    Raises:
        NotFound: it has no pod.
        PhaseConflict: the container has not written anything yet, or had no run before.
        InvalidSpec: the pod has no such container.
        OperatorUnavailable: the cluster does not answer.
    """
    missing = NotFound(f"The GPU unit '{unit.name}' has no pod at present, so there is no log.")
    try:
        with deadline(READ_SECONDS):
            cluster = get_cluster()
            pods = _pods(cluster, unit)
            if not pods:
                raise missing
            text = cluster.pod_log(
                pods[0]["metadata"]["name"],
                namespace=unit.namespace,
                container=_container(pods[0], container),
                tail_lines=tail,
                limit_bytes=MAX_LOG_BYTES,
                previous=previous,
            )
    except ClusterRejected as error:
        raise PhaseConflict(f"There is no such log yet: {error.detail}") from error
    except ClusterError as error:
        raise _unavailable(error) from error
    if text is None:
        raise missing
    return text


def unit_events(unit: GpuUnit) -> list[ObjectEvent]:
    """Return what was said about the unit and what it owns, newest first.

    Raises:
        OperatorUnavailable: the cluster does not answer.
    """
    try:
        with deadline(READ_SECONDS):
            cluster = get_cluster()
            uids = list(_uids(cluster, unit))[:MOST_OBJECTS]
            return events_about(cluster, unit.namespace, uids)
    except ClusterError as error:
        raise _unavailable(error) from error


def _uids(cluster: Cluster, unit: GpuUnit) -> Iterator[str]:
    """Yield the UIDs of the unit, its pods, its Deployment and that one's ReplicaSets."""
    if not unit.uid:
        return
    yield unit.uid
    for pod in _pods(cluster, unit):
        yield pod["metadata"]["uid"]
    deployment = cluster.get(DEPLOYMENT, deployment_name(unit.name), namespace=unit.namespace)
    if deployment is not None and _owner(deployment) == unit.uid:
        yield deployment["metadata"]["uid"]
        for each in _newest_first(cluster, REPLICA_SET, unit):
            if _owner(each) == deployment["metadata"]["uid"]:
                yield each["metadata"]["uid"]


def _pods(cluster: Cluster, unit: GpuUnit) -> list[Manifest]:
    """Return the unit's own pods: those that stay before those that go, newest first."""
    pods = [
        pod
        for pod in _newest_first(cluster, POD, unit)
        if field(pod, "metadata", "labels", UNIT_UID_LABEL) == unit.uid
    ]
    return sorted(pods, key=lambda pod: bool(field(pod, "metadata", "deletionTimestamp")))


def _newest_first(cluster: Cluster, kind: ResourceKind, unit: GpuUnit) -> list[Manifest]:
    selector = f"{UNIT_LABEL}={unit.name}"
    found = cluster.list(kind, namespace=unit.namespace, label_selector=selector).items
    return sorted(found, key=lambda one: str(_made(one)), reverse=True)


def _made(one: Manifest) -> object:
    return field(one, "metadata", "creationTimestamp")


def _owner(one: Manifest) -> object:
    owners = items(one, "metadata", "ownerReferences")
    return next((field(o, "uid") for o in owners if field(o, "controller")), None)


def _container(pod: Manifest, wanted: str | None) -> str:
    names = [str(field(one, "name")) for one in items(pod, "spec", "containers")]
    if wanted is None:
        return names[0] if names else ""
    if wanted not in names:
        message = f"The pod has no such container; it has {', '.join(names)}."
        raise InvalidSpec(f"container: {message}", details=[FieldError("container", message)])
    return wanted


def _unavailable(error: ClusterError) -> OperatorUnavailable:
    return OperatorUnavailable(str(error), retry_after=error.retry_after or 5)
