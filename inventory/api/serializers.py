"""Response models of the stock pool and GPU spec routes."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ConfigDict, Field

from gpuplatform.api.schema import (
    NullIfEmpty,
    Reply,
    SchemaOf,
    conforming_block,
    optional,
    words,
)
from gpuplatform.operations.api.resources import (
    PlacementBlock,
    ResourceAmounts,
    ResourceNameText,
    ResourceReply,
    path_field,
)
from gpuplatform.operations.waits import deletion_messages
from gpuplatform.workloads.placement import Placement
from gpuplatform.workloads.references import PullSecret
from gpuplatform.workloads.resources import GPU_RESOURCE
from gpuplatform.workloads.template import PodTemplate
from inventory.models import GpuSpec, StockPool
from inventory.phases import PoolPhase, PoolReason
from inventory.products import Offered, offered_products, possible_products
from inventory.services.pools import PoolOperation


class StockPoolReply(ResourceReply):
    """Spec and status of a stock pool."""

    model_config = ConfigDict(json_schema_extra=optional("template"))

    name: str = Field(description="Name of the stock pool.", examples=["h100"])
    namespace: str = Field(description="Namespace of the stock pool.", examples=["default"])
    phase: PoolPhase = Field(
        description="Summary of the state of the stock pool.", examples=[PoolPhase.READY.value]
    )
    reason: str = Field(
        description="Code that explains the phase; empty until the status is reported.",
        examples=[PoolReason.DEPLOYMENT_READY.value],
        json_schema_extra=words(PoolReason, empty=True),
    )
    image: str | None = path_field(
        "spec",
        "image",
        description="Container image of the pods; null for the platform's reservation image.",
        examples=["docker.io/library/python:3.13-slim"],
    )
    memory: str | None = path_field(
        "spec",
        "memory",
        description="Memory of each pod; null if no memory is requested.",
        examples=["16Gi"],
    )
    gpu: int = path_field(
        "spec",
        "gpu",
        default=0,
        description="Number of GPUs of each pod.",
        examples=[1],
    )
    resource_name: ResourceNameText = path_field(
        "spec",
        "resourceName",
        default=GPU_RESOURCE,
        description="Extended resource that `gpu` counts.",
        examples=[GPU_RESOURCE],
    )
    resources: ResourceAmounts = path_field(
        "spec",
        "resources",
        description="Further extended resources of each pod; null if there are none.",
    )
    placement: PlacementBlock = path_field(
        "spec",
        "placement",
        description="Node selector and tolerations of the pods; null if there are none.",
    )
    template: Annotated[
        Annotated[dict[str, Any], SchemaOf(PodTemplate)] | None,
        BeforeValidator(partial(conforming_block, PodTemplate)),
    ] = path_field(
        "spec",
        "template",
        description="Command, arguments, environment variables and ports of the container; null if"
        " the spec has no template. Lists omit it.",
        examples=[{"ports": [{"name": "http", "port": 8080}]}],
    )
    desired_replicas: int = Field(description="Desired number of pods.", examples=[2])
    available_replicas: int = Field(description="Number of available pods.", examples=[2])
    allocated_replicas: int = Field(
        description="Number of desired pods that are not available.", examples=[0]
    )
    service_name: Annotated[str | None, NullIfEmpty] = Field(
        description="Name of the Service of the pods; null if the template has no ports.",
        examples=["pool-h100"],
    )


def pool_replies(rows: Sequence[StockPool]) -> list[StockPoolReply]:
    """Return the responses for stock pools, with what their accepted deletions wait for."""
    ending = {row.pk: row.name for row in rows if row.deletion_requested_at}
    messages = deletion_messages(PoolOperation.DELETE, ending)
    replies = {row.pk: StockPoolReply.of(row) for row in rows}
    return [
        reply.model_copy(update={"message": messages.get(number, reply.message)})
        for number, reply in replies.items()
    ]


class GpuSpecReply(Reply):
    """A GPU spec of the catalogue."""

    name: str = Field(
        description="Name of the GPU spec: the `specName` of stock and units.",
        examples=["h100-2g"],
    )
    description: str = Field(
        description="Human-readable description of the GPU spec.", examples=["Two H100"]
    )
    cpu: Annotated[str | None, NullIfEmpty] = Field(
        description="CPU of one unit; null if no CPU is requested.", examples=["8"]
    )
    memory: Annotated[str | None, NullIfEmpty] = Field(
        description="Memory of one unit; null if no memory is requested.", examples=["64Gi"]
    )
    gpu: int = Field(description="Number of GPUs of one unit.", examples=[2])
    resource_name: str = Field(
        description="Extended resource that `gpu` counts.", examples=[GPU_RESOURCE]
    )
    resources: Annotated[dict[str, str] | None, NullIfEmpty] = Field(
        description="Further extended resources of one unit; null if there are none."
    )
    product: Annotated[str | None, NullIfEmpty] = Field(
        description="Required value of the node label `nvidia.com/gpu.product`; null for any.",
        examples=["NVIDIA-H100-80GB-HBM3"],
    )
    products: list[str] | None = Field(
        description="GPU products that a unit can get: several if the GPU spec requires none and"
        " the nodes have several; null if the nodes are not known.",
        examples=[["NVIDIA-H100-80GB-HBM3"]],
    )
    placement: Annotated[Annotated[dict[str, Any], SchemaOf(Placement)] | None, NullIfEmpty] = (
        Field(description="Node selector and tolerations of the pods; null if there are none.")
    )
    warm_images: list[str] = Field(
        description="Images that the platform keeps on each node with units of the GPU spec.",
        examples=[["vllm/vllm-openai:v0.11.0"]],
    )
    image_pull_secrets: list[PullSecret] = Field(
        description="Secrets with which nodes pull the warm images.",
        examples=[[{"name": "registry"}]],
    )
    warm_target: int = Field(
        description="Number of ready stock units that the platform maintains; 0 disables the"
        " automatic top-up.",
        examples=[2],
    )
    is_top_up_paused: bool = Field(
        alias="topUpPaused",
        description="Whether the automatic top-up to the warm target is paused.",
        examples=[False],
    )
    restocks_on_delete: bool = Field(
        alias="restockOnDelete",
        description="Whether the platform creates a new stock unit for each deleted unit.",
        examples=[False],
    )
    may_preempt: bool = Field(
        description="Whether a unit can preempt other pods to get the GPUs of its stock unit.",
        examples=[True],
    )
    is_enabled: bool = Field(
        alias="enabled",
        description="Whether stock of the GPU spec can be seeded and claimed.",
        examples=[True],
    )
    created_at: datetime = Field(description="Time at which the GPU spec was created.")
    updated_at: datetime = Field(description="Time at which the GPU spec last changed.")

    @classmethod
    def of(cls, row: GpuSpec, offered: Offered | None) -> Self:
        """Return the response for a GPU spec; `offered` are the GPU products of the nodes."""
        columns = {name: getattr(row, name) for name in cls.model_fields if name != "products"}
        products = possible_products(row, offered)
        return cls(**columns, products=None if products is None else list(products))


def spec_replies(rows: Sequence[GpuSpec]) -> list[GpuSpecReply]:
    """Return the responses for GPU specs."""
    offered = offered_products()
    return [GpuSpecReply.of(row, offered) for row in rows]
