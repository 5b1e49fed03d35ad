"""Status fields that all custom resources have."""

from typing import Annotated, Literal

from pydantic import Field

from gpuplatform.formats.model import SpecModel


class Condition(SpecModel):
    """A Kubernetes condition."""

    type: str = Field(
        min_length=1,
        max_length=316,
        description="Type of the condition, in CamelCase.",
        examples=["Ready"],
    )
    status: Literal["True", "False", "Unknown"] = Field(
        description="Status of the condition: True, False or Unknown.", examples=["True"]
    )
    reason: str = Field(
        default="",
        max_length=1024,
        description="Machine-readable reason for the last change of the status, in CamelCase.",
        examples=["PoolReady"],
    )
    message: str = Field(
        default="",
        max_length=32768,
        description="Human-readable explanation of the status.",
        examples=["2 of 2 pods are ready."],
    )
    observed_generation: int | None = Field(
        default=None,
        alias="observedGeneration",
        ge=0,
        description="Generation of the spec on which the condition is based.",
        examples=[1],
    )
    last_transition_time: str | None = Field(
        default=None,
        alias="lastTransitionTime",
        json_schema_extra={"format": "date-time"},
        description="Time at which the status of the condition last changed.",
        examples=["2026-01-31T12:00:00Z"],
    )


class ObservedStatus(SpecModel):
    """The observed state of a resource. Only the platform writes it; each kind adds fields."""

    phase: str = Field(
        default="",
        max_length=32,
        description="Phase of the resource: a summary of its state.",
        examples=["Ready"],
    )
    cause: str | None = Field(
        default=None,
        max_length=64,
        description="Code of the problem, if any, that prevents a pod from running or from being"
        " ready.",
        examples=["ImagePullFailed"],
    )
    observed_generation: int = Field(
        default=0,
        alias="observedGeneration",
        ge=0,
        description="Most recent generation of the spec that the platform observed.",
        examples=[1],
    )
    last_sync_time: str | None = Field(
        default=None,
        alias="lastSyncTime",
        json_schema_extra={"format": "date-time"},
        description="Time at which the platform last wrote the status.",
        examples=["2026-01-31T12:00:00Z"],
    )
    conditions: Annotated[tuple[Condition, ...], Field(strict=False)] = Field(
        default=(),
        description="Conditions that explain the phase.",
        json_schema_extra={"x-kubernetes-list-map-keys": ["type"]},
    )
