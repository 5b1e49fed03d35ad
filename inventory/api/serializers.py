"""What stock pools and the catalogue look like from outside."""

from datetime import datetime
from typing import Any, Self

from pydantic import Field

from gpuplatform.api.conditions import ConditionReply, conditions_of
from gpuplatform.api.schema import Reply
from gpuplatform.workloads.causes import StartupCause
from inventory.models import GpuSpec, StockPool
from inventory.phases import PoolPhase


class StockPoolReply(Reply):
    """A stock pool: what is wanted, and what is."""

    name: str = Field(description="Its name.", examples=["h100"])
    namespace: str = Field(description="Its namespace.", examples=["default"])
    spec_name: str = Field(description="Name of the GPU spec it holds.", examples=["g1.1"])
    image: str | None = Field(description="Image of its pods; null: the reservation image.")
    memory: str | None = Field(description="Memory of one pod.", examples=["16Gi"])
    gpu: int = Field(description="GPUs of one pod.", examples=[1])
    template: dict[str, Any] | None = Field(description="Command, args, envs and ports.")
    desired_replicas: int = Field(description="Pods wanted.", examples=[2])
    available_replicas: int = Field(description="Pods that run.", examples=[2])
    allocated_replicas: int = Field(description="Pods wanted that do not run.", examples=[0])
    phase: PoolPhase = Field(description="How it is doing.", examples=["Ready"])
    reason: str = Field(description="Why, as a word.", examples=["DeploymentReady"])
    message: str = Field(description="Why, in the cluster's own words.")
    cause: StartupCause | None = Field(
        description="What keeps a pod from running or from being ready; null if nothing does.",
        examples=["ImagePullFailed"],
    )
    service_name: str | None = Field(description="Its Service; null without ports.")
    conditions: list[ConditionReply]
    generation: int = Field(description="Generation of what is wanted.", examples=[1])
    observed_generation: int = Field(description="Generation that phase and conditions speak of.")
    uid: str | None = Field(description="UID of the resource; null until it is made.")
    created_at: datetime = Field(description="When it was asked for.")
    deletion_timestamp: datetime | None = Field(description="When its deletion was asked for.")
    last_sync_time: datetime | None = Field(description="When it was last copied.")
    operation_id: str | None = Field(
        description="The operation that made it; null for one made with kubectl."
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
            template=spec.get("template"),
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
    """An entry of the catalogue."""

    name: str = Field(description="Its name: the specName of stock and units.", examples=["g1.1"])
    description: str = Field(description="For people.")
    cpu: str | None = Field(description="CPU of one unit; null: none.", examples=["8"])
    memory: str | None = Field(description="Memory of one unit; null: none.", examples=["64Gi"])
    gpu: int = Field(description="GPUs of one unit.", examples=[1])
    product: str | None = Field(
        description="The node label nvidia.com/gpu.product; null: any.",
        examples=["NVIDIA-H100-80GB-HBM3"],
    )
    placement: dict[str, Any] | None = Field(description="nodeSelector and tolerations.")
    warm_target: int = Field(description="How many ready stock units are kept.", examples=[2])
    top_up_paused: bool = Field(description="Whether the warm target is left alone for now.")
    restock_on_delete: bool = Field(
        description="Whether a deleted unit is replaced by a new stock unit."
    )
    may_preempt: bool = Field(
        description="Whether a unit may evict others for the GPU that its stock held."
    )
    enabled: bool = Field(description="Whether anything is claimed or seeded of it.")
    created_at: datetime = Field(description="When it was entered.")
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
