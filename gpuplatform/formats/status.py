"""The declaration of what the statuses of all our resources have in common."""

from typing import Annotated, Literal

from pydantic import Field

from gpuplatform.formats.model import SpecModel


class Condition(SpecModel):
    """One statement about the object, as Kubernetes writes them."""

    type: str = Field(
        min_length=1, max_length=316, description="What it is about.", examples=["Ready"]
    )
    status: Literal["True", "False", "Unknown"] = Field(
        description="Whether it holds.", examples=["True"]
    )
    reason: str = Field(
        default="", max_length=1024, description="Why, as one word.", examples=["PoolReady"]
    )
    message: str = Field(
        default="",
        max_length=32768,
        description="Why, as a sentence for a person.",
        examples=["2 of 2 pods are ready."],
    )
    observed_generation: int | None = Field(
        default=None,
        alias="observedGeneration",
        ge=0,
        description="The generation of the spec that it speaks of.",
        examples=[1],
    )
    last_transition_time: str | None = Field(
        default=None,
        alias="lastTransitionTime",
        json_schema_extra={"format": "date-time"},
        description="When its status changed last.",
        examples=["2026-01-31T12:00:00Z"],
    )


class ObservedStatus(SpecModel):
    """What the reconciler saw last; written by it alone. A kind adds its own fields."""

    phase: str = Field(default="", max_length=32, description="The summary.", examples=["Ready"])
    cause: str | None = Field(
        default=None,
        max_length=64,
        description="What keeps a pod from running or from being ready; absent if nothing does.",
        examples=["ImagePullFailed"],
    )
    observed_generation: int = Field(
        default=0,
        alias="observedGeneration",
        ge=0,
        description="The generation of the spec that this status speaks of.",
        examples=[1],
    )
    last_sync_time: str | None = Field(
        default=None,
        alias="lastSyncTime",
        json_schema_extra={"format": "date-time"},
        description="When this status was written.",
        examples=["2026-01-31T12:00:00Z"],
    )
    conditions: Annotated[tuple[Condition, ...], Field(strict=False)] = Field(
        default=(),
        description="The detail behind the phase.",
        json_schema_extra={"x-kubernetes-list-map-keys": ["type"]},
    )
