"""Deletes leftovers: resources that late writes of ended operations created."""

from collections.abc import Callable
from typing import Any

from django.db.models import Manager, QuerySet

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import Manifest, ResourceKind
from gpuplatform.operations.models import Operation
from gpuplatform.operations.selectors import is_leftover, operation_of


def delete_leftovers_of(
    cluster: Cluster,
    kind: ResourceKind,
    rows: Manager[Any] | QuerySet[Any],
    is_left: Callable[[Manifest, Operation | None], bool] = is_leftover,
) -> int:
    """Delete the leftovers of a kind by UID; return the number of deleted resources.

    A resource with one of `rows` is not a leftover. Each resource is read before its operation, so
    that an operation that ends in between counts as ended.
    """
    resources = cluster.list(kind).items
    uids = [resource["metadata"]["uid"] for resource in resources]
    known = set(rows.filter(uid__in=uids).values_list("uid", flat=True))
    deleted = 0
    for resource in resources:
        metadata = resource["metadata"]
        name, namespace, uid = metadata["name"], metadata["namespace"], metadata["uid"]
        if uid not in known and is_left(resource, operation_of(resource)):
            deleted += cluster.delete(kind, name, namespace=namespace, uid=uid)
    return deleted
