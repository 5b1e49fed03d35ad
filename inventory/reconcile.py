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
from gpuplatform.reconciliation.owned import Owned, ReadAtOnce, ReadNow, is_unsettled
from inventory.core.names import deployment_name, service_name
from inventory.core.observed import ObservedPool
from inventory.core.plan import FAREWELL, plan_pool
from inventory.mirror import pool_gone, pool_marked, pool_recorded, pools_listed
from inventory.models import StockPool


def observe_pool(cluster: Cluster, pool: Manifest) -> ObservedPool:
    """Read what `pool` owns. A read that is forbidden is `Unknown`.

    Raises:
        ClusterUnavailable: nothing can be said about the pool now; it stays as it is.
    """
    return _observed(ReadNow(cluster, POOL_LABEL), pool)


def _observed(owned: Owned, pool: Manifest) -> ObservedPool:
    namespace, name = pool["metadata"]["namespace"], pool["metadata"]["name"]
    return ObservedPool(
        deployment=owned.one(DEPLOYMENT, namespace, deployment_name(name)),
        service=owned.one(SERVICE, namespace, service_name(name)),
        pods=owned.all(POD, namespace, name),
        at=clock.now(),
    )


def _rows() -> QuerySet[StockPool]:
    return StockPool.objects.filter(deleted_at__isnull=True)


POOLS = Reconciler(
    kind=STOCK_POOL,
    rows=_rows,
    observe=observe_pool,
    plan=plan_pool,
    record=lambda lease, resource: pool_recorded(lease.guarded(), resource),
    close=pool_gone,
    farewell=lambda _: FAREWELL,
)


def compare_all(cluster: Cluster) -> list[int]:
    """Compare one list of everything with the mirror and the plan; mark what differs.

    Returns the numbers of the rows with something to do. Settled pools cost no write.
    """
    owned = ReadAtOnce(cluster, POOL_LABEL, (DEPLOYMENT, SERVICE, POD))
    listing = cluster.list(STOCK_POOL)
    due = pools_listed(listing)
    for pool, _ in _unsettled(owned, listing.items):
        marked = pool_marked(pool["metadata"]["namespace"], pool["metadata"]["name"])
        due += [] if marked is None else [marked]
    return due


def unsettled_pools(cluster: Cluster) -> Iterator[tuple[Manifest, Plan]]:
    """Yield the pools that are not as they should be, with what would be done."""
    owned = ReadAtOnce(cluster, POOL_LABEL, (DEPLOYMENT, SERVICE, POD))
    yield from _unsettled(owned, cluster.list(STOCK_POOL).items)


def _unsettled(owned: Owned, pools: list[Manifest]) -> Iterator[tuple[Manifest, Plan]]:
    for pool in pools:
        plan = plan_pool(pool, _observed(owned, pool))
        if is_unsettled(pool, plan):
            yield pool, plan


def delete_leftovers(cluster: Cluster) -> int:
    """Delete what late writes of ended operations left, by UID; return how many.

    The object is read first and its operation second, so that an operation that ends meanwhile is
    seen as it ended. What has a row is none.
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
