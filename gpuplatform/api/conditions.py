"""Kubernetes conditions in replies."""

from datetime import datetime
from typing import Any

from pydantic import Field, ValidationError

from gpuplatform.api.schema import Reply


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


def conditions_of(column: Any) -> list[ConditionReply]:
    """Return the conditions of a row, which anybody may have written: what is none is left out."""
    found = []
    for entry in column if isinstance(column, list) else []:
        try:
            found.append(ConditionReply.model_validate(entry))
        except ValidationError:
            continue
    return found
