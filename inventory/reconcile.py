"""Reconciling stock pools: what to read, and the wiring of the planner to the driver."""

from collections.abc import Iterator

from django.db.models import QuerySet

from gpuplatform import clock
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import DEPLOYMENT, POD, SERVICE, STOCK_POOL, Manifest
from gpuplatform.operations.selectors import is_leftover, operation_of
from gpuplatform.planning.ownership import POOL_LABEL
from gpuplatform.planning.plan import Plan
from gpuplatform.reconciliation.driver import Reconciler
from gpuplatform.reconciliation.leases import RowLease
from gpuplatform.reconciliation.owned import ListedObjects, LiveObjects, Owned, is_unsettled
from gpuplatform.workloads.owner import Children, deletion_event
from inventory.core.names import deployment_name, service_name
from inventory.core.plan import plan_pool
from inventory.mirror import POOL_MIRROR
from inventory.models import StockPool


def observe_pool(cluster: Cluster, pool: Manifest) -> Children:
    """Read what `pool` owns. A read that is forbidden is `Unknown`.

    Raises:
        ClusterUnavailable: nothing is known about the pool now; it stays as it is.
    """
    return _observed(LiveObjects(cluster, POOL_LABEL), pool)


def _observed(owned: Owned, pool: Manifest) -> Children:
    namespace, name = pool["metadata"]["namespace"], pool["metadata"]["name"]
    return Children(
        deployment=owned.one(DEPLOYMENT, namespace, deployment_name(name)),
        service=owned.one(SERVICE, namespace, service_name(name)),
        pods=owned.all(POD, namespace, name),
        at=clock.now(),
    )


def _rows() -> QuerySet[StockPool]:
    return StockPool.objects.filter(deleted_at__isnull=True)


def _record(lease: RowLease[StockPool], resource: Manifest) -> None:
    POOL_MIRROR.recorded(lease.guarded(), resource)


POOLS = Reconciler(
    kind=STOCK_POOL,
    rows=_rows,
    observe=observe_pool,
    plan=plan_pool,
    record=_record,
    close=POOL_MIRROR.gone,
    deletion_event=lambda _: deletion_event("stock pool"),
)


def compare_all(cluster: Cluster) -> list[int]:
    """Compare one list of everything with the mirror and the plan; mark what differs.

    Returns the ids of rows with something to do. Settled pools cost no write.
    """
    owned = ListedObjects(cluster, POOL_LABEL, (DEPLOYMENT, SERVICE, POD))
    listing = cluster.list(STOCK_POOL)
    due = POOL_MIRROR.listed(listing)
    for pool, _ in _unsettled(owned, listing.items):
        due += POOL_MIRROR.marked(pool["metadata"]["namespace"], pool["metadata"]["name"])
    return due


def unsettled_pools(cluster: Cluster) -> Iterator[tuple[Manifest, Plan]]:
    """Yield the pools that differ from their plan, with the plan."""
    owned = ListedObjects(cluster, POOL_LABEL, (DEPLOYMENT, SERVICE, POD))
    yield from _unsettled(owned, cluster.list(STOCK_POOL).items)


def _unsettled(owned: Owned, pools: list[Manifest]) -> Iterator[tuple[Manifest, Plan]]:
    for pool in pools:
        plan = plan_pool(pool, _observed(owned, pool))
        if is_unsettled(pool, plan):
            yield pool, plan


def delete_leftovers(cluster: Cluster) -> int:
    """Delete what late writes of ended operations left, by UID; return the number.

    The resource is read first and its operation second, so that an operation that ends in between
    is known as ended. A resource with a row is not a leftover.
    """
    pools = cluster.list(STOCK_POOL).items
    uids = [pool["metadata"]["uid"] for pool in pools]
    known = set(StockPool.objects.filter(uid__in=uids).values_list("uid", flat=True))
    deleted = 0
    for pool in pools:
        metadata = pool["metadata"]
        if metadata["uid"] not in known and is_leftover(pool, operation_of(pool)):
            deleted += cluster.delete(
                STOCK_POOL,
                metadata["name"],
                namespace=metadata["namespace"],
                uid=metadata["uid"],
            )
    return deleted
