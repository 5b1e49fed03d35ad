"""Making and removing stock, so many at a time; each step is written down before the next."""

from collections.abc import Iterator, Sequence
from typing import Final

from gpuplatform.errors import ClusterConflict, ClusterError
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.deadline import remaining
from gpuplatform.kube.kinds import GPU_UNIT, Manifest
from gpuplatform.operations.driver import MIN_STEP_SECONDS
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.provenance import bears, marks
from gpuplatform.operations.registry import Checkpoint, Done, Failed, Step, Waiting
from units.core.manifests import resource
from units.core.names import STOCK_ORDINAL_ANNOTATION, STOCK_REPLICAS_ANNOTATION
from units.core.spec import parse_unit_spec
from units.models import GpuUnit
from units.phases import UnitWait
from units.services.outcomes import (
    stock_created,
    stock_removal_failed,
    stock_removal_sent,
    stock_seeding_ended,
    stock_to_create,
    stock_to_remove,
)

A_STEP: Final = 20
"""How many are made, or removed, before it is written down."""

SEEDING_SECONDS: Final = 2.0


def seed(cluster: Cluster, operation: Operation) -> Step:
    """Make what has no UID yet. What has one is never made again, whatever became of it."""
    rows = list(stock_to_create(operation)[:A_STEP])
    if not rows:
        return Done()
    seen: dict[int, Manifest | None] = {}
    for row, found in _makings(cluster, operation, rows):
        if isinstance(found, Failed):
            if seen:
                break
            return found
        seen[row.pk] = found
    return Checkpoint(lambda fresh: stock_created(fresh, seen))


def settle_seed(operation: Operation, _outcome: Done | Failed) -> None:
    """Close what was never made; what was made stays."""
    stock_seeding_ended(operation)


def remove(cluster: Cluster, operation: Operation) -> Step:
    """Delete what is set aside for removal, by UID."""
    rows = list(stock_to_remove(operation).select_related("operation")[:A_STEP])
    if not rows:
        return Done()
    sent = _deleted(cluster, [row for row in rows if not _is_being_made(row)])
    if sent:
        return Checkpoint(lambda fresh: stock_removal_sent(fresh, sent))
    return Waiting(
        UnitWait.SEEDING, "Some of it is just being made; then it goes.", SEEDING_SECONDS
    )


def settle_remove(operation: Operation, outcome: Done | Failed) -> None:
    """Give back what was not removed."""
    if isinstance(outcome, Failed):
        stock_removal_failed(operation)


def _is_late() -> bool:
    """Say whether this run has too little time left for one more: a lost answer costs more."""
    left = remaining()
    return left is not None and left < MIN_STEP_SECONDS


def _makings(
    cluster: Cluster, operation: Operation, rows: Sequence[GpuUnit]
) -> Iterator[tuple[GpuUnit, Manifest | Failed | None]]:
    """Make one after the other; what was made before a failure is written down before it counts.

    Raises:
        ClusterError: the first one failed.
    """
    for number, row in enumerate(rows):
        try:
            found = _made(cluster, operation, row)
        except ClusterError:
            if number:
                return
            raise
        yield row, found
        if _is_late():
            return


def _made(cluster: Cluster, operation: Operation, row: GpuUnit) -> Manifest | Failed | None:
    """Make one stock unit, or find that it was made; None when it is wanted no more."""
    found = _read(cluster, row) if row.deletion_requested_at else _post(cluster, operation, row)
    return found if found is None or bears(found, operation) else _in_the_way(row, found)


def _post(cluster: Cluster, operation: Operation, row: GpuUnit) -> Manifest:
    annotations = {
        **marks(operation),
        STOCK_REPLICAS_ANNOTATION: str(operation.progress_total),
        STOCK_ORDINAL_ANNOTATION: str(row.ordinal),
    }
    manifest = resource(row.namespace, row.name, parse_unit_spec(row.spec), annotations)
    try:
        return cluster.create(GPU_UNIT, manifest)
    except ClusterConflict:
        found = _read(cluster, row)
        if found is None:
            raise
        return found


def _read(cluster: Cluster, row: GpuUnit) -> Manifest | None:
    return cluster.get(GPU_UNIT, row.name, namespace=row.namespace)


def _is_being_made(row: GpuUnit) -> bool:
    """Say whether a seeding is about to record its UID, or that it was never made."""
    maker = row.operation
    return not row.uid and maker is not None and maker.phase in OPEN_PHASES


def _deleted(cluster: Cluster, rows: Sequence[GpuUnit]) -> list[int]:
    """Delete one after the other; what was deleted before a failure is written down first.

    Raises:
        ClusterError: the first one failed.
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
    """Delete one stock unit, if it was made; rule `uidstock`: exactly this one."""
    if not row.uid:
        return
    try:
        cluster.delete(GPU_UNIT, row.name, namespace=row.namespace, uid=row.uid)
    except ClusterConflict:
        # Not every conflict means that another one has its name.
        found = _read(cluster, row)
        if found is not None and found["metadata"]["uid"] == row.uid:
            raise


def _in_the_way(row: GpuUnit, found: Manifest) -> Failed:
    return Failed(
        "name_conflict",
        f"A GPU unit '{row.name}' that this operation did not make exists in the namespace"
        f" '{row.namespace}'. Remove it, and seed again.",
        resource=found,
    )
