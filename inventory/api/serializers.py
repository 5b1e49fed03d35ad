"""Replies about stock pools and the catalogue."""

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import Field

from gpuplatform.api.conditions import ConditionReply, conditions_of
from gpuplatform.api.schema import Reply, SchemaOf, conforming_block, words
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.placement import Placement
from gpuplatform.workloads.template import PodTemplate
from inventory.models import GpuSpec, StockPool
from inventory.phases import PoolPhase, PoolReason


class StockPoolReply(Reply):
    """A stock pool: its spec and its status."""

    name: str = Field(description="Name of the pool.", examples=["h100"])
    namespace: str = Field(description="Namespace of the pool.", examples=["default"])
    spec_name: str = Field(description="GPU spec of its pods.", examples=["h100-1g"])
    image: str | None = Field(
        description="Image of its pods; null: the platform's reservation image.",
        examples=["docker.io/library/python:3.13-slim"],
    )
    memory: str | None = Field(
        description="Memory of each pod; null: no request and no limit.", examples=["16Gi"]
    )
    gpu: int = Field(description="GPUs of each pod.", examples=[1])
    template: Annotated[dict[str, Any], SchemaOf(PodTemplate)] | None = Field(
        description="Command, arguments, environment and ports; null: those of the image.",
        examples=[{"ports": [{"name": "http", "port": 8080}]}],
    )
    desired_replicas: int = Field(description="Desired number of pods.", examples=[2])
    available_replicas: int = Field(description="Number of pods that are available.", examples=[2])
    allocated_replicas: int = Field(
        description="Number of desired pods that are not available.", examples=[0]
    )
    phase: PoolPhase = Field(
        description="Summary of the pool's state.", examples=[PoolPhase.READY.value]
    )
    reason: str = Field(
        description="Code that explains the phase; empty until the status is written.",
        examples=[PoolReason.DEPLOYMENT_READY.value],
        json_schema_extra=words(PoolReason, empty=True),
    )
    message: str = Field(
        description="Explanation of the phase for people.", examples=["2 of 2 pods are available."]
    )
    cause: StartupCause | None = Field(
        description="What keeps a pod from running or from being ready; null if nothing does."
    )
    service_name: str | None = Field(
        description="Service of its pods; null without ports.", examples=["pool-h100"]
    )
    conditions: list[ConditionReply] = Field(description="Conditions of the resource's status.")
    generation: int = Field(description="Generation of the spec.", examples=[1])
    observed_generation: int = Field(
        description="Generation of the spec that phase and conditions describe.", examples=[1]
    )
    uid: str | None = Field(
        description="UID of the resource; null until it exists.",
        examples=["9b2f6a0e-5f0d-4c56-9d0a-7f6a4a2f3c11"],
    )
    created_at: datetime = Field(description="When its creation was accepted.")
    deletion_timestamp: datetime | None = Field(
        description="When its deletion was accepted; null if it was not."
    )
    last_sync_time: datetime | None = Field(
        description="When it was last copied from the cluster; null until it was."
    )
    operation_id: str | None = Field(
        description="Operation that created it; null if it was created with kubectl.",
        examples=["create-stock-pool-1"],
    )

    @classmethod
    def of(cls, pool: StockPool) -> Self:
        """Return the reply for a row."""
        spec = pool.spec
        return cls(
            name=pool.name,
            namespace=pool.namespace,
            spec_name=pool.spec_name,
            image=spec.get("image"),
            memory=spec.get("memory"),
            gpu=spec.get("gpu", 0),
            template=conforming_block(PodTemplate, spec.get("template")),
            desired_replicas=pool.desired_replicas,
            available_replicas=pool.available_replicas,
            allocated_replicas=pool.allocated_replicas,
            phase=PoolPhase(pool.phase),
            reason=pool.reason,
            message=pool.message,
            cause=StartupCause(pool.cause) if pool.cause else None,
            service_name=pool.service_name or None,
            conditions=conditions_of(pool.conditions),
            generation=pool.generation,
            observed_generation=pool.observed_generation,
            uid=pool.uid or None,
            created_at=pool.created_at,
            deletion_timestamp=pool.deletion_requested_at,
            last_sync_time=pool.last_sync_at,
            operation_id=pool.operation.operation_id if pool.operation else None,
        )


class GpuSpecReply(Reply):
    """A GPU spec of the catalogue."""

    name: str = Field(
        description="Name of the spec: the `specName` of stock and units.", examples=["h100-2g"]
    )
    description: str = Field(description="Description for people.", examples=["Two H100"])
    cpu: str | None = Field(description="CPU of a unit; null: none.", examples=["8"])
    memory: str | None = Field(description="Memory of a unit; null: none.", examples=["64Gi"])
    gpu: int = Field(description="GPUs of a unit.", examples=[2])
    product: str | None = Field(
        description="Value of the node label `nvidia.com/gpu.product`; null: any.",
        examples=["NVIDIA-H100-80GB-HBM3"],
    )
    placement: Annotated[dict[str, Any], SchemaOf(Placement)] | None = Field(
        description="Node selector and tolerations; null: none."
    )
    warm_target: int = Field(
        description="Number of ready stock units that the platform maintains.", examples=[2]
    )
    top_up_paused: bool = Field(
        description="Whether the platform ignores the warm target for now.", examples=[False]
    )
    restock_on_delete: bool = Field(
        description="Whether a new stock unit replaces each deleted unit.", examples=[False]
    )
    may_preempt: bool = Field(
        description="Whether a unit may evict other pods to get the GPUs that its stock held.",
        examples=[True],
    )
    enabled: bool = Field(
        description="Whether stock of the spec is seeded and claimed.", examples=[True]
    )
    created_at: datetime = Field(description="When it was created.")
    updated_at: datetime = Field(description="When it last changed.")

    @classmethod
    def of(cls, row: GpuSpec) -> Self:
        """Return the reply for a row."""
        return cls(
            name=row.name,
            description=row.description,
            cpu=row.cpu or None,
            memory=row.memory or None,
            gpu=row.gpu,
            product=row.product or None,
            placement=row.placement or None,
            warm_target=row.warm_target,
            top_up_paused=row.is_top_up_paused,
            restock_on_delete=row.restocks_on_delete,
            may_preempt=row.may_preempt,
            enabled=row.is_enabled,
            created_at=row.created_at,
            updated_at=row.updated_at,
        )
