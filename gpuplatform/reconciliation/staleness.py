"""The staleness check: confirms that a resource is deleted before a row is closed.

A read that does not find the resource may be older than the row. Reconcilers and operations call
this before they close a row, or end an operation, because of an absence.
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
    """Confirm that the resource of `row` is deleted; `read` is the resource of its name, if any.

    Another resource of the name that is newer than the row proves it, since names are unique.
    Otherwise a list proves it: it has a resource version, which the 404 of a read does not have.

    Raises:
        ClusterConflict: an answer was older than the row, or the resource exists. Read again.
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
        f"Stale read of '{row.namespace}/{row.name}': the answer is older than the known state."
        " Retrying.",
        status=409,
    )
