"""The declaration of the status fields that all custom resources have."""

from typing import Annotated, Literal

from pydantic import Field

from gpuplatform.formats.model import SpecModel


class Condition(SpecModel):
    """A Kubernetes condition."""

    type: str = Field(
        min_length=1, max_length=316, description="Aspect of the object.", examples=["Ready"]
    )
    status: Literal["True", "False", "Unknown"] = Field(
        description="Status of the condition.", examples=["True"]
    )
    reason: str = Field(
        default="", max_length=1024, description="Code that explains it.", examples=["PoolReady"]
    )
    message: str = Field(
        default="",
        max_length=32768,
        description="Explanation for people.",
        examples=["2 of 2 pods are ready."],
    )
    observed_generation: int | None = Field(
        default=None,
        alias="observedGeneration",
        ge=0,
        description="Generation of the spec that it describes.",
        examples=[1],
    )
    last_transition_time: str | None = Field(
        default=None,
        alias="lastTransitionTime",
        json_schema_extra={"format": "date-time"},
        description="When its status last changed.",
        examples=["2026-01-31T12:00:00Z"],
    )


class ObservedStatus(SpecModel):
    """The observed state; written by the platform only. Each kind adds its own fields."""

    phase: str = Field(
        default="", max_length=32, description="Summary of the state.", examples=["Ready"]
    )
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
        description="Generation of the spec that the status describes.",
        examples=[1],
    )
    last_sync_time: str | None = Field(
        default=None,
        alias="lastSyncTime",
        json_schema_extra={"format": "date-time"},
        description="When the status was last written.",
        examples=["2026-01-31T12:00:00Z"],
    )
    conditions: Annotated[tuple[Condition, ...], Field(strict=False)] = Field(
        default=(),
        description="Conditions that explain the phase.",
        json_schema_extra={"x-kubernetes-list-map-keys": ["type"]},
    )
