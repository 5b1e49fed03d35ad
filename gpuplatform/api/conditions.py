"""Kubernetes conditions in replies."""

from datetime import datetime
from typing import Any

from pydantic import Field, ValidationError

from gpuplatform.api.schema import Reply


class ConditionReply(Reply):
    """A Kubernetes condition."""

    type: str = Field(description="Aspect of the object.", examples=["Ready"])
    status: str = Field(
        description="Status of the condition.",
        examples=["True"],
        json_schema_extra={"enum": ["True", "False", "Unknown"]},
    )
    reason: str = Field(
        default="", description="Code that explains the status.", examples=["DeploymentReady"]
    )
    message: str = Field(
        default="",
        description="Explanation of the status for people.",
        examples=["2 of 2 pods are available."],
    )
    observed_generation: int = Field(
        default=0, description="Generation of the spec that it describes.", examples=[1]
    )
    last_transition_time: datetime | None = Field(
        default=None,
        description="When its status last changed.",
        examples=["2026-01-31T12:00:00Z"],
    )


def conditions_of(column: Any) -> list[ConditionReply]:
    """Return the conditions of a row; an entry that is not a condition is left out.

    The column is a copy of a status, which any client of the cluster may have written.
    """
    found = []
    for entry in column if isinstance(column, list) else []:
        try:
            found.append(ConditionReply.model_validate(entry))
        except ValidationError:
            continue
    return found
