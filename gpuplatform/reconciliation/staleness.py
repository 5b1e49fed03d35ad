"""The staleness check, which confirms that a resource is deleted.

A response without the resource can be older than the row. Reconcilers and operations therefore
call `confirm_deleted` before they close a row or end an operation because a resource is absent.
"""

from collections.abc import Mapping
from typing import Any

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.errors import ClusterConflict
from gpuplatform.kube.kinds import Manifest, ResourceKind
from gpuplatform.reconciliation.mirror import version_number
from gpuplatform.reconciliation.models import MirrorRow


def confirm_deleted(
    cluster: Cluster, kind: ResourceKind, row: MirrorRow, read: Manifest | None
) -> None:
    """Confirm that the resource of `row` is deleted.

    `read` is the object that has the same name now, or `None`. If it is newer than the row, the
    resource is deleted, because names are unique. Otherwise a list is read: in contrast to a 404
    response, a list has a resource version, which shows whether the response is stale.

    Raises:
        ClusterConflict: If the response is stale, or if the resource exists. Read again.
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
        f"The response about '{row.namespace}/{row.name}' is older than the known state. The"
        " platform retries automatically.",
        status=409,
    )
