"""The request body that drains a node. Pure."""

from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias

from pydantic import Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from gpuplatform.formats.request import OperationBody

MAX_NOTICE_MINUTES: Final = 24 * 60


DrainedUnits: TypeAlias = Literal["keep", "stop"]
"""What a drain does with the units on the node: they run until their owners stop them, or they are
stopped when the notice has expired."""


class NodeDrainBody(OperationBody):
    """The request body that drains a node."""

    units: DrainedUnits = Field(
        default="keep",
        description="Whether the units on the node are stopped after a notice.",
        examples=["stop"],
    )
    notice_minutes: int | None = Field(
        default=None,
        alias="noticeMinutes",
        ge=0,
        le=MAX_NOTICE_MINUTES,
        description="Minutes until the units are stopped. Required for `stop` only.",
        examples=[30],
    )

    @model_validator(mode="after")
    def notice_belongs_to_a_stop(self) -> "NodeDrainBody":
        """Require a notice if and only if the units are stopped, so that no stop is implied."""
        if self.units == "stop" and self.notice_minutes is None:
            raise _invalid("Is required if units is 'stop'.", self.notice_minutes)
        if self.units == "keep" and self.notice_minutes is not None:
            raise _invalid("Is only possible if units is 'stop'.", self.notice_minutes)
        return self

    @property
    def notice(self) -> timedelta | None:
        """The time until the units are stopped, or `None` if they keep running."""
        return None if self.notice_minutes is None else timedelta(minutes=self.notice_minutes)


def _invalid(why: str, value: Any) -> ValidationError:
    return ValidationError.from_exception_data(
        "noticeMinutes",
        [
            InitErrorDetails(
                type=PydanticCustomError("notice", "{why}", {"why": why}),
                loc=("noticeMinutes",),
                input=value,
            )
        ],
    )
