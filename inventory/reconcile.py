"""Reconciles stock pools: reads the observed state and connects the planner to the driver."""

from collections.abc import Iterator

from django.db.models import QuerySet

from gpuplatform import clock
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import DEPLOYMENT, POD, SERVICE, STOCK_POOL, Manifest
from gpuplatform.operations.leftovers import delete_leftovers_of
from gpuplatform.planning.ownership import POOL_LABEL
from gpuplatform.planning.plan import Plan
from gpuplatform.reconciliation.driver import Reconciler
from gpuplatform.reconciliation.leases import RowLease
from gpuplatform.reconciliation.owned import ListedObjects, LiveObjects, Owned, is_unsettled
from gpuplatform.reconciliation.pod_settings import pod_settings
from gpuplatform.workloads.owner import Children, deletion_event
from inventory.core.names import object_name
from inventory.core.plan import plan_pool
from inventory.mirror import POOL_MIRROR
from inventory.models import StockPool


def observe_pool(cluster: Cluster, pool: Manifest) -> Children:
    """Read the objects that `pool` owns. A forbidden read gives `Unknown`.

    Raises:
        ClusterUnavailable: If the cluster cannot be reached; the run then makes no changes.
    """
    return _observed(LiveObjects(cluster, POOL_LABEL), pool)


def _observed(owned: Owned, pool: Manifest) -> Children:
    namespace, name = pool["metadata"]["namespace"], pool["metadata"]["name"]
    return Children(
        deployment=owned.one(DEPLOYMENT, namespace, object_name(name)),
        service=owned.one(SERVICE, namespace, object_name(name)),
        pods=owned.all(POD, namespace, name),
        settings=pod_settings(),
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
    """List all stock pools and their objects, and mark the rows that need work.

    Returns the ids of these rows. Rows of unchanged stock pools are not written.
    """
    owned = ListedObjects(cluster, POOL_LABEL, (DEPLOYMENT, SERVICE, POD))
    listing = cluster.list(STOCK_POOL)
    due = POOL_MIRROR.listed(listing)
    for pool, _ in _unsettled(owned, listing.items):
        due += POOL_MIRROR.marked(pool["metadata"]["namespace"], pool["metadata"]["name"])
    return due


def unsettled_pools(cluster: Cluster) -> Iterator[tuple[Manifest, Plan]]:
    """Yield each stock pool whose plan would change something, with the plan."""
    owned = ListedObjects(cluster, POOL_LABEL, (DEPLOYMENT, SERVICE, POD))
    yield from _unsettled(owned, cluster.list(STOCK_POOL).items)


def _unsettled(owned: Owned, pools: list[Manifest]) -> Iterator[tuple[Manifest, Plan]]:
    for pool in pools:
        plan = plan_pool(pool, _observed(owned, pool))
        if is_unsettled(pool, plan):
            yield pool, plan


def delete_leftovers(cluster: Cluster) -> int:
    """Delete the leftover stock pools; return their number."""
    return delete_leftovers_of(cluster, STOCK_POOL, StockPool.objects)
