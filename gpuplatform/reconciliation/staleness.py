"""Believing that a resource is gone: one answer without it may be older than what is known of it.

"Unknown is never empty": whoever would close a row, or end an operation, because a read did not
find the resource asks here first.
"""

from collections.abc import Mapping
from typing import Any

from gpuplatform.errors import ClusterConflict
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import Manifest, ResourceKind
from gpuplatform.reconciliation.mirror import version_number
from gpuplatform.reconciliation.models import MirrorRow


def confirm_gone(
    cluster: Cluster, kind: ResourceKind, row: MirrorRow, read: Manifest | None
) -> None:
    """Make sure that the resource of `row` is gone; `read` is what was found in its place.

    Another resource of its name that is newer than the row proves it: names are unique. Else a
    list has to, which says of which version it is, where the 404 of a single read does not.

    Raises:
        ClusterConflict: an answer was older than the row, or it is there after all. Read again.
    """
    if read is not None and _is_newer(read["metadata"], row):
        return
    listing = cluster.list(
        kind, namespace=row.namespace, field_selector=f"metadata.name={row.name}"
    )
    if version_number(listing.resource_version) < row.resource_version:
        raise _stale(row)
    if any(found["metadata"]["uid"] == row.uid for found in listing.items):
        raise _stale(row)


def _is_newer(metadata: Mapping[str, Any], row: MirrorRow) -> bool:
    return version_number(metadata["resourceVersion"]) > row.resource_version


def _stale(row: MirrorRow) -> ClusterConflict:
    return ClusterConflict(
        f"The cluster answered with an older state of '{row.namespace}/{row.name}' than is known."
        " It is read again.",
        status=409,
    )
