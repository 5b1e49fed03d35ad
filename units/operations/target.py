"""The unit that an operation is about: reading it, and changing exactly what was read."""

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
"""The reason with which an API server refuses to change what is not there."""


def read_unit(cluster: Cluster, operation: Operation) -> Manifest | None:
    """Return the resource that has the name of the operation's unit."""
    return cluster.get(GPU_UNIT, operation.object_name, namespace=operation.object_namespace)


def read_target(cluster: Cluster, operation: Operation) -> Manifest | None:
    """Return the unit that is meant: the one that the create made; None when it is gone.

    Rules `recorduid` and `order`: operations on one unit run in order, so that the row has the UID
    that the create recorded; none, if it made none.

    Raises:
        ClusterConflict: the answer without it was an old one.
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
    """Change the spec of the unit as it was read; None when it is gone by now.

    Rule `rvpatch`: UID and resource version guard it. Rule `applied`: it carries the number of its
    operation, so that an older one is not applied over it.

    Raises:
        ClusterConflict: it is not as it was read; it is read again.
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
    """Return the end of a change whose unit is gone."""
    return Failed("not_found", f"The GPU unit '{operation.object_name}' is gone.")
