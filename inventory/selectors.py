"""Queries of stock pools and of the catalogue."""

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from django.db.models import Case, Exists, OuterRef, Q, QuerySet, Subquery, Sum, When

from gpuplatform.errors import FieldError, InvalidSpec, NotFound
from gpuplatform.formats.model import invalid_spec
from gpuplatform.formats.text import quoted
from gpuplatform.postgresql.compiled import CompiledRows
from gpuplatform.reconciliation.leases import due_ids
from gpuplatform.reconciliation.models import ClusterState
from gpuplatform.workloads.holders import Holder, NodeRecord, Owner
from gpuplatform.workloads.nodes import NodeState, PodRequirements, Taint
from gpuplatform.workloads.placement import PRODUCT_LABEL
from gpuplatform.workloads.resources import resource_in
from inventory.models import GpuSpec, Node, NodeDrain, StockPool
from inventory.phases import PoolPhase

MOST_OFFERED = 1_000
"""Maximum number of GPU spec names that a form offers."""

MOST_NAMED = 20
"""Maximum number of GPU spec names in the message of an error."""


class PodsHeld(NamedTuple):
    """A number of pods of stock pools that have the same GPU spec and the same GPUs."""

    spec_name: str
    resource_name: str
    gpu: int
    pods: int


def pools_live() -> QuerySet[StockPool]:
    """Return the stock pools that exist or are being created, newest first."""
    live: QuerySet[StockPool] = StockPool.objects.filter(deleted_at__isnull=True)
    live = live.annotate(  # type: ignore[no-redef]  # declared
        is_spec_catalogued=is_spec_catalogued()
    )
    return live.select_related("operation", "tenant").order_by("-id")


def pool_get(namespace: str, name: str, *, for_update: bool = False) -> StockPool:
    """Return a stock pool that exists or is being created.

    `for_update` locks the row, so that operations on a stock pool are accepted one by one.

    Raises:
        NotFound: If no stock pool has this name.
    """
    rows = pools_live().filter(namespace=namespace, name=name)
    pool = (rows.select_for_update(of=("self",)) if for_update else rows).first()
    if pool is None:
        msg = f"Stock pool '{name}' not found in namespace '{namespace}'."
        raise NotFound(msg)
    return pool


def pool_count() -> int:
    """Return the number of stock pools that exist or are being created."""
    return StockPool.objects.filter(deleted_at__isnull=True).count()


def pools_due(limit: int) -> list[int]:
    """Return the ids of at most `limit` due stock pools that no worker has claimed."""
    return due_ids(StockPool.objects.filter(deleted_at__isnull=True).exclude(uid=""), limit)


def pods_held() -> list[PodsHeld]:
    """Return the number of pods that hold GPUs for stock pools, by GPU spec and GPUs of a pod.

    Of a failed stock pool, only the available pods count; of any other, all desired pods.
    """
    held = Case(
        When(phase=PoolPhase.FAILED, then="available_replicas"), default="desired_replicas"
    )
    rows = (
        StockPool.objects.filter(deleted_at__isnull=True)
        .order_by()
        .values("spec_name", "spec__resourceName", "spec__gpu")
        .annotate(pods=Sum(held))
    )
    return [
        PodsHeld(
            row["spec_name"],
            resource_in({"resourceName": row["spec__resourceName"]}),
            _whole(row["spec__gpu"]),
            row["pods"] or 0,
        )
        for row in rows
    ]


def pool_uids() -> list[str]:
    """Return the UIDs of the stock pools that exist."""
    live = StockPool.objects.filter(deleted_at__isnull=True).exclude(uid="").order_by()
    return list(live.values_list("uid", flat=True))


def _whole(value: object) -> int:
    """Return a value of an unvalidated spec if it is a positive integer, otherwise 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def specs_all() -> QuerySet[GpuSpec]:
    """Return all GPU specs of the catalogue, sorted by name."""
    return GpuSpec.objects.order_by("name")


def spec_pod_fields(entry: GpuSpec) -> dict[str, Any]:
    """Return the fields of a GPU spec that its pods get besides their size, by API name.

    The placement contains the GPU product. Empty fields are omitted.
    """
    placement = dict(entry.placement)
    if entry.product:
        selector = {**placement.get("nodeSelector", {}), PRODUCT_LABEL: entry.product}
        placement["nodeSelector"] = selector
    found = {
        "resourceName": entry.resource_name,
        "resources": entry.resources,
        "placement": placement,
    }
    return {name: value for name, value in found.items() if value}


def is_spec_catalogued() -> Exists:
    """Return the condition that the catalogue has the GPU spec of the outer row.

    A GPU spec can be deleted while its units and pools exist, and another client of the cluster
    can name any.
    """
    return Exists(GpuSpec.objects.filter(name=OuterRef("spec_name")))


def spec_row() -> Subquery:
    """Return the id of the GPU spec of the outer row, for links to its page."""
    return Subquery(GpuSpec.objects.filter(name=OuterRef("spec_name")).values("pk"))


def specs_enabled() -> QuerySet[GpuSpec]:
    """Return the GPU specs that requests can name, sorted by name."""
    return specs_all().filter(is_enabled=True)


def spec_requested(name: str, *, for_update: bool = False) -> GpuSpec:
    """Return the enabled GPU spec that a request names in the field `specName`.

    `for_update` locks the row, so that it is not disabled or deleted before the commit.

    Raises:
        InvalidSpec: If the GPU spec is not in the catalogue or is disabled. The message contains
            the names of at most `MOST_NAMED` enabled GPU specs.
    """
    if for_update:
        found = _specs_named(name).select_for_update().first()
    else:
        found = next(iter(_SPEC.objects(name)), None)
    if found is None or not found.is_enabled:
        raise _not_offered(name, is_known=found is not None)
    return found


def _specs_named(name: str) -> QuerySet[GpuSpec]:
    return GpuSpec.objects.filter(name=name)


_SPEC: Final = CompiledRows(_specs_named)


def _not_offered(name: str, *, is_known: bool) -> InvalidSpec:
    names = list(specs_enabled().values_list("name", flat=True)[: MOST_NAMED + 1])
    listed = ", ".join(names[:MOST_NAMED])
    more = ", …" if len(names) > MOST_NAMED else ""
    state = "is disabled" if is_known else "is not in the catalogue"
    choice = f"Available GPU specs: {listed}{more}." if names else "No GPU spec is available."
    return invalid_spec([FieldError("specName", f"{quoted(name)} {state}. {choice}")])


def spec_requirements(entry: GpuSpec) -> PodRequirements:
    """Return the requirements of the pod of a new unit of a GPU spec."""
    return PodRequirements.of_spec({"gpu": entry.gpu, **spec_pod_fields(entry)})


def spec_names() -> list[str]:
    """Return the names of the enabled GPU specs, at most `MOST_OFFERED`, sorted."""
    return list(specs_enabled().values_list("name", flat=True)[:MOST_OFFERED])


def spec_get(name: str, *, for_update: bool = False) -> GpuSpec:
    """Return a GPU spec of the catalogue.

    `for_update` locks the row, so that changes of a GPU spec are accepted one by one.

    Raises:
        NotFound: If the catalogue has no GPU spec with this name.
    """
    rows = GpuSpec.objects.filter(name=name)
    found = (rows.select_for_update() if for_update else rows).first()
    if found is None:
        msg = f"GPU spec '{name}' is not in the catalogue."
        raise NotFound(msg)
    return found


def nodes_all() -> QuerySet[Node]:
    """Return the nodes, sorted by name. Includes deleted nodes to which pods are bound."""
    return Node.objects.order_by("name")


def node_get(name: str) -> Node:
    """Return a node.

    Raises:
        NotFound: If the cluster has no node with this name.
    """
    found = nodes_all().filter(name=name).first()
    if found is None:
        msg = f"Node '{name}' not found."
        raise NotFound(msg)
    return found


def node_present(name: str) -> Node:
    """Return a node that exists, not only pods that are bound to it.

    Raises:
        NotFound: If the cluster has no node with this name.
    """
    node = node_get(name)
    if not node.is_present:
        msg = f"Node '{name}' no longer exists."
        raise NotFound(msg)
    return node


def drain_ids() -> list[int]:
    """Return the ids of the drains in progress."""
    return list(NodeDrain.objects.order_by("id").values_list("id", flat=True))


def cluster_seen() -> bool:
    """Return whether the cluster has been observed, so that no rows of nodes mean no nodes."""
    return ClusterState.objects.filter(seen_at__isnull=False).exists()


def node_records_known() -> dict[str, NodeRecord] | None:
    """Return the record of each node by name.

    Returns `None` if the nodes of the cluster have never been observed. Runs at most two queries.
    """
    found = {row.name: node_record(row) for row in nodes_all()}
    return found if found or cluster_seen() else None


def node_records_among(
    names: Collection[str], *, if_short: Collection[str] = ()
) -> dict[str, NodeRecord]:
    """Return the records of the nodes in `names`, and of the short nodes in `if_short`, by name.

    A node is short if its pods hold more than it offers. Runs at most one query.
    """
    if not (names or if_short):
        return {}
    wanted = Q(name__in=names) | Q(name__in=if_short, is_short=True)
    return {row.name: node_record(row) for row in nodes_all().filter(wanted)}


def node_record(row: Node) -> NodeRecord:
    """Return the record of a row."""
    state = NodeState(
        name=row.name,
        labels=row.labels,
        capacity=row.capacity,
        allocatable=row.allocatable,
        is_present=row.is_present,
        is_ready=row.is_ready,
        is_schedulable=row.is_schedulable,
        taints=tuple(Taint(**one) for one in row.taints),
        pressures=tuple(row.pressures),
    )
    return NodeRecord(
        state, tuple(Holder(**{**one, "owner": Owner(one["owner"])}) for one in row.holders)
    )
