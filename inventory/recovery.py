"""Rebuilds the rows and operations of stock pools from the cluster.

Called only by `manage.py recover`, while no process of the platform is running.
"""

from collections.abc import Iterator, Mapping

from django.db import transaction

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import STOCK_POOL, Manifest
from gpuplatform.operations.provenance import has_marks
from gpuplatform.operations.selectors import operation_of
from gpuplatform.operations.services import operation_rebuild
from inventory.mirror import POOL_MIRROR
from inventory.models import Node, NodeDrain, StockPool
from inventory.services.pools import PoolOperation


def recover_pools(cluster: Cluster, *, dry_run: bool) -> Iterator[str]:
    """Import all stock pools of the cluster; yield a line for each change and inconsistency.

    Raises:
        ClusterError: If the cluster cannot be read; nothing is changed then.
    """
    listing = cluster.list(STOCK_POOL)
    rows = StockPool.objects.exclude(uid="")
    known = {uid: closed is None for uid, closed in rows.values_list("uid", "deleted_at")}
    seen = {pool["metadata"]["uid"] for pool in listing.items}
    with transaction.atomic():
        if not dry_run:
            # Resource versions of different clusters cannot be compared.
            StockPool.objects.filter(deleted_at__isnull=True).update(resource_version=0)
            Node.objects.update(resource_version=0)
        yield from _end_drains(dry_run=dry_run)
        for pool in listing.items:
            yield from _recover_pool(pool, known, dry_run=dry_run)
        if not dry_run:
            POOL_MIRROR.listed(listing)
    missing = StockPool.objects.filter(deleted_at__isnull=True).exclude(uid="")
    for row in missing.exclude(uid__in=seen):
        yield f"{row}: not in the cluster; its row will be closed"


def _end_drains(*, dry_run: bool) -> Iterator[str]:
    """End all drains: a restored drain may have been cancelled since, and it stops units."""
    drains = NodeDrain.objects.order_by("node")
    for drain in drains:
        yield f"node {drain}: its drain is ended; drain the node again if it is still required"
    if not dry_run:
        drains.delete()


def _recover_pool(pool: Manifest, known: Mapping[str, bool], *, dry_run: bool) -> Iterator[str]:
    """Recover one stock pool.

    `known` contains the UIDs that have a row, with `True` if the row is open.
    """
    metadata = pool["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}"
    if not has_marks(pool):
        yield f"{name}: not created by an operation; imported without one"
    elif operation_of(pool) is None:
        yield f"{name}: its operation is rebuilt from its annotations"
        if not dry_run:
            operation_rebuild(pool, kind=PoolOperation.CREATE)
    if metadata["uid"] not in known:
        yield f"{name}: imported into the database"
        if not dry_run:
            POOL_MIRROR.observed(pool)
    elif not known[metadata["uid"]]:
        yield f"{name}: its row was closed; it is opened again"
        if not dry_run and not POOL_MIRROR.reopened(pool, POOL_MIRROR.gone):
            yield f"{name}: an open operation uses its name; run recover again when it has ended"
