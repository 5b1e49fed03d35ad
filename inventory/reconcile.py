"""Reconciling stock pools: what to read, and the wiring of the planner to the driver."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet

from gpuplatform.errors import ClusterForbidden, ClusterRejected
from gpuplatform.kube.client import Cluster, Listing
from gpuplatform.kube.kinds import DEPLOYMENT, POD, SERVICE, STOCK_POOL, Manifest
from gpuplatform.operations.selectors import is_leftover, operation_of
from gpuplatform.reconciliation.comparison import status_differs
from gpuplatform.reconciliation.driver import Reconciler, status_fields
from gpuplatform.reconciliation.ownership import POOL_LABEL
from gpuplatform.reconciliation.plan import Absent, Observation, Plan, Present, Unknown
from inventory.core.names import deployment_name, service_name
from inventory.core.observed import ObservedPool
from inventory.core.plan import plan_pool
from inventory.mirror import pool_gone, pool_marked, pool_recorded, pools_listed
from inventory.models import StockPool


def observe_pool(cluster: Cluster, pool: Manifest) -> ObservedPool:
    """Read what `pool` owns. A read that is forbidden is `Unknown`.

    Raises:
        ClusterUnavailable: nothing can be said about the pool now; it stays as it is.
    """
    namespace, name = pool["metadata"]["namespace"], pool["metadata"]["name"]
    return ObservedPool(
        deployment=_object(
            lambda: cluster.get(DEPLOYMENT, deployment_name(name), namespace=namespace)
        ),
        service=_object(lambda: cluster.get(SERVICE, service_name(name), namespace=namespace)),
        pods=_pods(cluster, namespace, name),
    )


def _object(read: Callable[[], Manifest | None]) -> Observation[Manifest]:
    try:
        found = read()
    except (ClusterForbidden, ClusterRejected) as error:
        return Unknown(str(error))
    return Absent() if found is None else Present(found)


def _pods(cluster: Cluster, namespace: str, name: str) -> Observation[Any]:
    try:
        listing = cluster.list(POD, namespace=namespace, label_selector=f"{POOL_LABEL}={name}")
    except (ClusterForbidden, ClusterRejected) as error:
        return Unknown(str(error))
    return Present(tuple(listing.items))


def _rows() -> QuerySet[StockPool]:
    return StockPool.objects.filter(deleted_at__isnull=True)


POOLS = Reconciler(
    kind=STOCK_POOL,
    rows=_rows,
    observe=observe_pool,
    plan=plan_pool,
    record=pool_recorded,
    close=pool_gone,
)


def compare_all(cluster: Cluster) -> list[int]:
    """Compare one list of everything with the mirror and the plan; mark what differs.

    Returns the numbers of the rows with something to do. Settled pools cost no write.
    """
    deployments, services, pods = (
        _by_pool(cluster.list(kind, label_selector=POOL_LABEL))
        for kind in (DEPLOYMENT, SERVICE, POD)
    )
    listing = cluster.list(STOCK_POOL)
    due = pools_listed(listing)
    for pool in listing.items:
        namespace, name = pool["metadata"]["namespace"], pool["metadata"]["name"]
        owned = ObservedPool(
            deployment=_named(deployment_name(name), deployments[namespace, name]),
            service=_named(service_name(name), services[namespace, name]),
            pods=Present(tuple(pods[namespace, name])),
        )
        if _is_unsettled(pool, plan_pool(pool, owned)):
            marked = pool_marked(namespace, name)
            due += [] if marked is None else [marked]
    return due


def _is_unsettled(pool: Manifest, plan: Plan) -> bool:
    said = status_fields(pool, plan.status) if plan.status else {}
    return bool(plan.actions) or status_differs(pool.get("status") or {}, said)


def _by_pool(listing: Listing) -> defaultdict[tuple[str, str], list[Manifest]]:
    found: defaultdict[tuple[str, str], list[Manifest]] = defaultdict(list)
    for item in listing.items:
        found[item["metadata"]["namespace"], item["metadata"]["labels"][POOL_LABEL]].append(item)
    return found


def _named(name: str, objects: list[Manifest]) -> Observation[Manifest]:
    """Return the object of that name.

    One without the pool's label is not in such a list; the reconciler's own read finds it.
    """
    return next((Present(o) for o in objects if o["metadata"]["name"] == name), Absent())


def delete_leftovers(cluster: Cluster) -> int:
    """Delete what late writes of ended operations left, by UID; return how many.

    The object is read first and its operation second, so that an operation that ends meanwhile is
    seen as it ended.
    """
    deleted = 0
    for pool in cluster.list(STOCK_POOL).items:
        metadata = pool["metadata"]
        if is_leftover(pool, operation_of(pool)):
            deleted += cluster.delete(
                STOCK_POOL,
                metadata["name"],
                namespace=metadata["namespace"],
                uid=metadata["uid"],
            )
    return deleted
