"""Kubernetes conditions in API responses."""

from datetime import datetime
from typing import Any

from pydantic import Field, ValidationError

from gpuplatform.api.schema import Reply


class ConditionReply(Reply):
    """A Kubernetes condition."""

    type: str = Field(description="Type of the condition, in CamelCase.", examples=["Ready"])
    status: str = Field(
        description="Status of the condition: True, False or Unknown.",
        examples=["True"],
        json_schema_extra={"enum": ["True", "False", "Unknown"]},
    )
    reason: str = Field(
        default="",
        description="Machine-readable reason for the last change of the status, in CamelCase.",
        examples=["DeploymentReady"],
    )
    message: str = Field(
        default="",
        description="Human-readable explanation of the status.",
        examples=["2 of 2 pods are available."],
    )
    observed_generation: int = Field(
        default=0,
        description="Generation of the spec on which the condition is based.",
        examples=[1],
    )
    last_transition_time: datetime | None = Field(
        default=None,
        description="Time at which the status of the condition last changed.",
        examples=["2026-01-31T12:00:00Z"],
    )


def conditions_of(column: Any) -> list[ConditionReply]:
    """Return the valid conditions in the JSON column of a row.

    Invalid entries are ignored: the column is a copy of a status that any client of the cluster
    can write.
    """
    found = []
    for entry in column if isinstance(column, list) else []:
        try:
            found.append(ConditionReply.model_validate(entry))
        except ValidationError:
            continue
    return found
