"""Executes seedings and removals of stock in steps. Each step is recorded before the next one."""

from collections.abc import Iterator, Sequence
from typing import Final

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.deadline import remaining
from gpuplatform.kube.errors import ClusterConflict, ClusterError
from gpuplatform.kube.kinds import GPU_UNIT, Manifest
from gpuplatform.operations.driver import MIN_STEP_SECONDS
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.provenance import bears, marks
from gpuplatform.operations.registry import Checkpoint, Done, Failed, Step, Waiting
from units.core.manifests import resource
from units.core.names import STOCK_ORDINAL_ANNOTATION, STOCK_REPLICAS_ANNOTATION
from units.core.spec import GPUUnitSpec
from units.models import GpuUnit
from units.phases import UnitWait
from units.services.outcomes import (
    stock_created,
    stock_removal_sent,
    stock_to_create,
    stock_to_remove,
)

STEP_SIZE: Final = 20
"""Maximum number of stock units that one step creates or deletes."""

SEEDING_SECONDS: Final = 2.0


def seed(cluster: Cluster, operation: Operation) -> Step:
    """Create the next stock units whose row has no UID.

    A row with a UID was created before. It is never created again, even if it was deleted.
    """
    rows = list(stock_to_create(operation)[:STEP_SIZE])
    if not rows:
        return Done()
    seen: dict[int, Manifest | None] = {}
    for row, found in _creations(cluster, operation, rows):
        if isinstance(found, Failed):
            if seen:
                break
            return found
        seen[row.pk] = found
    return Checkpoint(lambda fresh: stock_created(fresh, seen))


def remove(cluster: Cluster, operation: Operation) -> Step:
    """Delete the next claimed stock units by UID."""
    rows = list(stock_to_remove(operation).select_related("operation")[:STEP_SIZE])
    if not rows:
        return Done()
    sent = _deleted(cluster, [row for row in rows if not _is_being_created(row)])
    if sent:
        return Checkpoint(lambda fresh: stock_removal_sent(fresh, sent))
    return Waiting(
        UnitWait.SEEDING,
        "Some stock units are still being created. They are deleted afterwards.",
        SEEDING_SECONDS,
    )


def _is_late() -> bool:
    """Return whether the remaining time of this run is too short for another call."""
    left = remaining()
    return left is not None and left < MIN_STEP_SECONDS


def _creations(
    cluster: Cluster, operation: Operation, rows: Sequence[GpuUnit]
) -> Iterator[tuple[GpuUnit, Manifest | Failed | None]]:
    """Create the stock units one by one and yield each row with its result.

    The iteration ends at the first failure; the next step repeats it.

    Raises:
        ClusterError: If the creation of the first stock unit fails.
    """
    for index, row in enumerate(rows):
        try:
            found = _created(cluster, operation, row)
        except ClusterError:
            if index:
                return
            raise
        yield row, found
        if _is_late():
            return


def _created(cluster: Cluster, operation: Operation, row: GpuUnit) -> Manifest | Failed | None:
    """Create a stock unit and return its resource, which may already exist.

    Returns `None` if the stock unit does not exist and its removal was requested.
    """
    found = _read(cluster, row) if row.deletion_requested_at else _post(cluster, operation, row)
    return found if found is None or bears(found, operation) else _name_conflict(row, found)


def _post(cluster: Cluster, operation: Operation, row: GpuUnit) -> Manifest:
    annotations = {
        **marks(operation),
        STOCK_REPLICAS_ANNOTATION: str(operation.progress_total),
        STOCK_ORDINAL_ANNOTATION: str(row.ordinal),
    }
    manifest = resource(row.namespace, row.name, GPUUnitSpec.parse(row.spec), annotations)
    try:
        return cluster.create(GPU_UNIT, manifest)
    except ClusterConflict:
        found = _read(cluster, row)
        if found is None:
            raise
        return found


def _read(cluster: Cluster, row: GpuUnit) -> Manifest | None:
    return cluster.get(GPU_UNIT, row.name, namespace=row.namespace)


def _is_being_created(row: GpuUnit) -> bool:
    """Return whether the seeding of a stock unit is open and has not recorded its UID yet."""
    seeding = row.operation
    return not row.uid and seeding is not None and seeding.phase in OPEN_PHASES


def _deleted(cluster: Cluster, rows: Sequence[GpuUnit]) -> list[int]:
    """Delete the stock units one by one; return the ids of the rows that were deleted.

    The deletions end at the first failure; the next step repeats it.

    Raises:
        ClusterError: If the deletion of the first stock unit fails.
    """
    sent: list[int] = []
    for row in rows:
        try:
            _delete(cluster, row)
        except ClusterError:
            if sent:
                break
            raise
        sent.append(row.pk)
        if _is_late():
            break
    return sent


def _delete(cluster: Cluster, row: GpuUnit) -> None:
    """Delete a stock unit by its UID, if it was created (rule `uidstock`)."""
    if not row.uid:
        return
    try:
        cluster.delete(GPU_UNIT, row.name, namespace=row.namespace, uid=row.uid)
    except ClusterConflict:
        # A conflict does not always mean that another unit has the name.
        found = _read(cluster, row)
        if found is not None and found["metadata"]["uid"] == row.uid:
            raise


def _name_conflict(row: GpuUnit, found: Manifest) -> Failed:
    return Failed(
        "name_conflict",
        f"The namespace '{row.namespace}' has a GPU unit '{row.name}' that this operation did not"
        " create. Delete the unit, and seed again.",
        resource=found,
    )
