"""Reads the log of a unit's pod and the Events about a unit from the cluster.

Each read has a deadline, and the result is not stored.
"""

from collections.abc import Iterator
from typing import Final

from gpuplatform.errors import (
    FieldError,
    InvalidSpec,
    NotFound,
    OperatorUnavailable,
    PhaseConflict,
)
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.errors import ClusterError, ClusterRejected
from gpuplatform.kube.fields import field, items
from gpuplatform.kube.kinds import DEPLOYMENT, JOB, POD, REPLICA_SET, Manifest, ResourceKind
from gpuplatform.kube.modes import get_cluster
from gpuplatform.planning.ownership import UNIT_LABEL, is_controlled_by
from gpuplatform.reconciliation.inspection import ObjectEvent, events_about
from units.core.names import UNIT_UID_LABEL, object_name
from units.models import GpuUnit

READ_SECONDS: Final = 5.0
MAX_LOG_BYTES: Final = 1024 * 1024
MOST_OBJECTS: Final = 12
"""Maximum number of objects whose Events are read. A unit normally has one pod; further objects
remain from earlier failures."""


def unit_log(unit: GpuUnit, *, tail: int, previous: bool, container: str | None) -> str:
    """Return the last lines of the log of the newest pod of a unit.

    Args:
        unit: The unit.
        tail: The maximum number of lines.
        previous: Whether to read the log of the previous run of the container.
        container: The name of the container; by default the first container of the pod.

    Raises:
        NotFound: If the unit has no pod.
        PhaseConflict: If the container has no log yet, or no previous run.
        InvalidSpec: If the pod has no container with this name.
        OperatorUnavailable: If the cluster does not respond.
    """
    missing = NotFound(f"GPU unit '{unit.name}' has no pod, so no log is available.")
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
        raise PhaseConflict(f"No log is available yet: {error.detail}") from error
    except ClusterError as error:
        raise _unavailable(error) from error
    if text is None:
        raise missing
    return text


def unit_events(unit: GpuUnit) -> list[ObjectEvent]:
    """Return the Events about a unit and its objects, newest first.

    Raises:
        OperatorUnavailable: If the cluster does not respond.
    """
    try:
        with deadline(READ_SECONDS):
            cluster = get_cluster()
            uids = list(_uids(cluster, unit))[:MOST_OBJECTS]
            return events_about(cluster, unit.namespace, uids)
    except ClusterError as error:
        raise _unavailable(error) from error


def _uids(cluster: Cluster, unit: GpuUnit) -> Iterator[str]:
    """Yield the UIDs of the unit, its pods, its Job, its Deployment and their ReplicaSets."""
    if not unit.uid:
        return
    yield unit.uid
    for pod in _pods(cluster, unit):
        yield pod["metadata"]["uid"]
    job = cluster.get(JOB, object_name(unit.name), namespace=unit.namespace)
    if job is not None and is_controlled_by(job, unit.uid):
        yield job["metadata"]["uid"]
    deployment = cluster.get(DEPLOYMENT, object_name(unit.name), namespace=unit.namespace)
    if deployment is not None and is_controlled_by(deployment, unit.uid):
        yield deployment["metadata"]["uid"]
        for each in _newest_first(cluster, REPLICA_SET, unit):
            if is_controlled_by(each, deployment["metadata"]["uid"]):
                yield each["metadata"]["uid"]


def _pods(cluster: Cluster, unit: GpuUnit) -> list[Manifest]:
    """Return the pods of exactly this unit, newest first; pods that are being deleted are last."""
    pods = [
        pod
        for pod in _newest_first(cluster, POD, unit)
        if field(pod, "metadata", "labels", UNIT_UID_LABEL) == unit.uid
    ]
    return sorted(pods, key=lambda pod: bool(field(pod, "metadata", "deletionTimestamp")))


def _newest_first(cluster: Cluster, kind: ResourceKind, unit: GpuUnit) -> list[Manifest]:
    selector = f"{UNIT_LABEL}={unit.name}"
    found = cluster.list(kind, namespace=unit.namespace, label_selector=selector).items
    return sorted(
        found, key=lambda one: str(field(one, "metadata", "creationTimestamp")), reverse=True
    )


def _container(pod: Manifest, wanted: str | None) -> str:
    names = [str(field(one, "name")) for one in items(pod, "spec", "containers")]
    if wanted is None:
        return names[0] if names else ""
    if wanted not in names:
        message = (
            f"The pod has no container with this name. Its containers are: {', '.join(names)}."
        )
        raise InvalidSpec(f"container: {message}", details=[FieldError("container", message)])
    return wanted


def _unavailable(error: ClusterError) -> OperatorUnavailable:
    return OperatorUnavailable(str(error), retry_after=error.retry_after or 5)
