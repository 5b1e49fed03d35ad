"""Query parameters and response models of the routes of nodes."""

from datetime import datetime
from typing import Annotated, Self

from django.db.models import QuerySet
from pydantic import Field

from gpuplatform.api.query import PageQuery
from gpuplatform.api.schema import NullIfEmpty, Reply
from gpuplatform.samples.capacity import ProductCapacity
from gpuplatform.workloads.resources import GPU_RESOURCE
from inventory.models import Node
from inventory.requests.drains import DrainedUnits
from units.drain_progress import DrainProgress
from units.drain_states import DrainState
from units.node_capacity import NodeCapacity, PodOnNode


class NodesQuery(PageQuery):
    """Filters of the list of nodes."""

    search: str | None = Field(
        default=None,
        max_length=253,
        description="Return only nodes whose name contains this text, ignoring case.",
    )

    def applied_to(self, rows: QuerySet[Node]) -> QuerySet[Node]:
        """Return the rows that match all filters."""
        return rows.filter(name__icontains=self.search) if self.search else rows


class NodeResourceReply(Reply):
    """An extended resource of a node. `free` and the sum of `uses` equal `allocatable`."""

    resource_name: str = Field(description="Name.", examples=[GPU_RESOURCE])
    total: int = Field(description="Number of devices.", examples=[8])
    allocatable: int = Field(description="Number that pods can request.", examples=[8])
    free: int = Field(description="Number that no pod holds.", examples=[7])
    excess: int = Field(description="Number that pods hold beyond it.", examples=[0])
    uses: dict[str, int] = Field(
        description="Number by use, as in the inventory.", examples=[{"active": 1}]
    )

    @classmethod
    def of(cls, found: ProductCapacity) -> Self:
        """Return the response for a resource. Uses without GPUs are omitted."""
        uses = {use: number for use, number in found.gpus.items() if number}
        return cls.model_validate({**found.model_dump(), "uses": uses})


class NodePodReply(Reply):
    """A pod that holds extended resources of a node."""

    namespace: str = Field(description="Namespace of the pod.", examples=["runtime-stock"])
    name: str = Field(description="Name of the pod.", examples=["unit-trainer-7d9c-x2x4v"])
    use: str = Field(description="Use of the GPUs.", examples=["active"])
    gpus: dict[str, int] = Field(description="Number by resource.", examples=[{GPU_RESOURCE: 1}])
    owner_kind: str | None = Field(
        description="`GPUUnit` or `StockPool`; null for other programs.",
        examples=["GPUUnit"],
    )
    owner_name: str | None = Field(
        description="Name of the unit or the stock pool.", examples=["trainer"]
    )
    tenant: Annotated[str | None, NullIfEmpty] = Field(
        description="Tenant of the owner.", examples=["default"]
    )

    @classmethod
    def of(cls, pod: PodOnNode) -> Self:
        """Return the response for a pod."""
        owner = pod.owner
        return cls.model_validate(
            {
                "namespace": pod.holder.namespace,
                "name": pod.holder.name,
                "use": pod.use,
                "gpus": dict(pod.holder.gpus),
                "owner_kind": owner.kind if owner else None,
                "owner_name": owner.name if owner else None,
                "tenant": owner.tenant if owner else "",
            }
        )


class UnitOnNodeReply(Reply):
    """An active unit that is left on a node."""

    namespace: str = Field(description="Namespace of the unit.", examples=["runtime-instance"])
    name: str = Field(description="Name of the unit.", examples=["trainer"])
    tenant: str | None = Field(
        description="Tenant of the unit; null if it was created with kubectl.",
        examples=["default"],
    )


class NodeDrainReply(Reply):
    """The drain of a node in progress."""

    operation_id: str = Field(description="operationID of the request.", examples=["drain-node-1"])
    state: DrainState = Field(description="Progress of the drain.")
    units: DrainedUnits = Field(description="As requested.")
    started_at: datetime = Field(description="Time of the request.")
    deadline: datetime | None = Field(
        description="Time at which the units are stopped; null if they keep running."
    )
    active_unit_count: int = Field(description="Number of active units on the node.", examples=[1])
    stock_unit_count: int = Field(description="Number of stock units on the node.", examples=[0])
    remaining: list[UnitOnNodeReply] = Field(description="The active units on the node.")

    @classmethod
    def of(cls, found: DrainProgress) -> Self:
        """Return the response for the progress of a drain."""
        drain = found.drain
        return cls(
            operation_id=drain.operation.operation_id,
            state=found.state,
            units="stop" if drain.deadline else "keep",
            started_at=drain.started_at,
            deadline=drain.deadline,
            active_unit_count=len(found.left.units),
            stock_unit_count=len(found.left.stock),
            remaining=[
                UnitOnNodeReply(
                    namespace=unit.namespace,
                    name=unit.name,
                    tenant=unit.tenant.name if unit.tenant else None,
                )
                for unit in found.left.units
            ],
        )


class NodeReply(Reply):
    """A node of the cluster, and the use of its GPUs."""

    name: str = Field(description="Name of the node.", examples=["gpu-node-1"])
    product: Annotated[str | None, NullIfEmpty] = Field(
        description="GPU product; null without the label.",
        examples=["NVIDIA-H100-80GB-HBM3"],
    )
    is_present: bool = Field(
        alias="exists",
        description="False for a deleted node with pods.",
        examples=[True],
    )
    is_ready: bool = Field(
        alias="ready", description="Whether the node is ready.", examples=[True]
    )
    is_schedulable: bool = Field(
        alias="schedulable", description="Whether the node is not cordoned.", examples=[True]
    )
    pressures: list[str] = Field(
        description="Conditions for which the node accepts no pods.", examples=[[]]
    )
    taints: list[str] = Field(
        description="Taints of the node.", examples=[["nvidia.com/gpu=present:NoSchedule"]]
    )
    resources: list[NodeResourceReply] = Field(description="Extended resources.")
    pods: list[NodePodReply] = Field(description="Pods that hold extended resources.")
    drain: NodeDrainReply | None = Field(description="Null unless the node is being drained.")

    @classmethod
    def of(cls, node: NodeCapacity) -> Self:
        """Return the response for a node."""
        row = node.row
        columns = ("name", "product", "is_present", "is_ready", "is_schedulable")
        return cls.model_validate(
            {
                **{name: getattr(row, name) for name in columns},
                "pressures": row.pressures,
                "taints": [str(taint) for taint in node.record.state.taints],
                "resources": [NodeResourceReply.of(one) for one in node.resources],
                "pods": [NodePodReply.of(pod) for pod in node.pods],
                "drain": NodeDrainReply.of(node.drain) if node.drain else None,
            }
        )
