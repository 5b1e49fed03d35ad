"""The unit of an operation: reads it, and changes exactly the version that was read."""

from typing import Any, Final

from gpuplatform.errors import ClusterRejected
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import GPU_UNIT, Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.provenance import APPLIED_OPERATION_ANNOTATION
from gpuplatform.operations.registry import Failed
from gpuplatform.reconciliation.staleness import confirm_gone
from units.models import GpuUnit

NOT_FOUND: Final = "NotFound"
"""Reason with which the API server rejects a change of an object that does not exist."""


def read_unit(cluster: Cluster, operation: Operation) -> Manifest | None:
    """Return the resource with the name of the operation's unit."""
    return cluster.get(GPU_UNIT, operation.object_name, namespace=operation.object_namespace)


def read_target(cluster: Cluster, operation: Operation) -> Manifest | None:
    """Return the unit that the create recorded; None if it is deleted or was not created.

    Rules `recorduid` and `order`: operations on one unit run in order, so the row has the UID that
    the create recorded.

    Raises:
        ClusterConflict: the answer without it was a stale read.
    """
    row = row_of(operation)
    if not row.uid:
        return None
    found = read_unit(cluster, operation)
    if found is not None and found["metadata"]["uid"] == row.uid:
        return found
    confirm_gone(cluster, GPU_UNIT, row, found)
    return None


def row_of(operation: Operation) -> GpuUnit:
    """Return the row of the operation's unit."""
    return GpuUnit.objects.get(pk=operation.object_row or 0)


def change(
    cluster: Cluster,
    operation: Operation,
    found: Manifest,
    spec: Manifest,
    marks: dict[str, Any] | None = None,
) -> Manifest | None:
    """Patch the spec of the unit that was read; return the unit, None if it is deleted.

    Rule `rvpatch`: UID and resource version guard the patch. Rule `applied`: the patch annotates
    the id of its operation, so that an older one is not applied over it.

    Raises:
        ClusterConflict: the unit changed since it was read.
    """
    metadata = found["metadata"]
    patch = {
        "metadata": {
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "annotations": {APPLIED_OPERATION_ANNOTATION: str(operation.pk), **(marks or {})},
        },
        "spec": spec,
    }
    try:
        return cluster.merge_patch(
            GPU_UNIT, metadata["name"], patch, namespace=metadata["namespace"]
        )
    except ClusterRejected as error:
        if error.reason == NOT_FOUND:
            return None
        raise


def gone(operation: Operation) -> Failed:
    """Return the outcome of a change whose unit is deleted."""
    return Failed("not_found", f"The GPU unit '{operation.object_name}' does not exist.")
