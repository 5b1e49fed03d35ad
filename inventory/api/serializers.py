"""What a stock pool looks like from outside."""

from datetime import datetime
from typing import Any, Self

from pydantic import Field

from gpuplatform.api.schema import Reply
from inventory.models import StockPool
from inventory.phases import PoolPhase


class ConditionReply(Reply):
    """A Kubernetes condition."""

    type: str = Field(description="What it is about.", examples=["Ready"])
    status: str = Field(description="True, False or Unknown.", examples=["True"])
    reason: str = Field(default="", description="Why, as a word.", examples=["DeploymentReady"])
    message: str = Field(default="", description="Why, for people.")
    observed_generation: int = Field(default=0, description="The generation it speaks of.")
    last_transition_time: datetime | None = Field(
        default=None, description="When its status last changed."
    )


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
            service_name=pool.service_name or None,
            conditions=[ConditionReply.model_validate(one) for one in pool.conditions],
            generation=pool.generation,
            observed_generation=pool.observed_generation,
            uid=pool.uid or None,
            created_at=pool.created_at,
            deletion_timestamp=pool.deletion_requested_at,
            last_sync_time=pool.last_sync_at,
            operation_id=pool.operation.operation_id if pool.operation else None,
        )
