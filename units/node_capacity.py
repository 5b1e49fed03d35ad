"""The capacity of single nodes: the use of their GPUs, and the pods that hold them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuplatform.samples.capacity import ProductCapacity
from gpuplatform.workloads.holders import Holder, NodeRecord, Owner
from inventory.models import Node, StockPool
from inventory.selectors import node_record
from units.capacity import owner_uses, product_capacity
from units.core.capacity import node_use, use_of
from units.drain_progress import DrainProgress, drains_progress
from units.models import GpuUnit
from units.phases import UnitRole


@dataclass(frozen=True, slots=True)
class PodOwner:
    """The GPU unit or the stock pool of a pod."""

    row_id: int
    kind: str
    """`GPUUnit` or `StockPool`."""
    role: UnitRole | None
    """The role of the unit, or `None` for a stock pool."""
    namespace: str
    name: str
    tenant: str
    """Name of the tenant, or an empty string."""


@dataclass(frozen=True, slots=True)
class PodOnNode:
    """A pod that holds GPUs of a node."""

    holder: Holder
    use: str
    """One of `units.capacity.USES`."""
    owner: PodOwner | None
    """The owner, or `None` if the pod is not part of the platform."""


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """A node, the use of its GPUs by resource, and the pods that hold them."""

    row: Node
    record: NodeRecord
    resources: Sequence[ProductCapacity]
    """The capacity of each extended resource, sorted by resource."""
    pods: Sequence[PodOnNode]
    """The pods, sorted by namespace and name."""
    drain: DrainProgress | None = None
    """The drain of the node, if it is being drained."""


def node_capacities(rows: Sequence[Node]) -> list[NodeCapacity]:
    """Return the capacity of the nodes. Runs five queries, or six if a node is being drained."""
    records = [node_record(row) for row in rows]
    drains = drains_progress({one.state.name: one for one in records})
    uses = owner_uses()
    owners = _owners(records)
    return [
        NodeCapacity(
            row=row,
            record=record,
            resources=[
                product_capacity(record.state.product, name, use)
                for name, use in node_use(record, uses).items()
            ],
            pods=[_pod(holder, uses, owners) for holder in record.holders],
            drain=drains.get(row.name),
        )
        for row, record in zip(rows, records, strict=True)
    ]


def _pod(holder: Holder, uses: Mapping[str, str], owners: Mapping[str, PodOwner]) -> PodOnNode:
    is_ours = holder.owner is not Owner.OTHER and holder.owner_uid in uses
    return PodOnNode(
        holder, use_of(holder, uses), owners.get(holder.owner_uid) if is_ours else None
    )


def _owners(records: Sequence[NodeRecord]) -> dict[str, PodOwner]:
    """Return the owners of the pods by UID."""
    by_kind: dict[Owner, set[str]] = {kind: set() for kind in Owner}
    for record in records:
        for holder in record.holders:
            by_kind[holder.owner].add(holder.owner_uid)
    columns = ("id", "uid", "namespace", "name", "tenant__name")
    units = GpuUnit.objects.filter(uid__in=by_kind[Owner.UNIT], deleted_at__isnull=True)
    pools = StockPool.objects.filter(uid__in=by_kind[Owner.POOL], deleted_at__isnull=True)
    found = {
        uid: PodOwner(row_id, "GPUUnit", UnitRole(role), namespace, name, tenant or "")
        for role, row_id, uid, namespace, name, tenant in units.order_by().values_list(
            "role", *columns
        )
    }
    for row_id, uid, namespace, name, tenant in pools.order_by().values_list(*columns):
        found[uid] = PodOwner(row_id, "StockPool", None, namespace, name, tenant or "")
    return found
