"""Query parameters, declared like bodies: an unknown, repeated or ill-formed one is refused.

A view without parameters takes `NoQuery`.
"""

import re
from typing import Annotated, Any, Self

from django.http import QueryDict
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)

from gpuplatform.errors import FieldError
from gpuplatform.formats.model import field_errors, invalid_spec
from gpuplatform.formats.operation_id import OperationID


def _integer(text: object) -> object:
    """Only plain digits: pydantic alone would take ' 1 ', '1_0' and '1.0' too."""
    if isinstance(text, str):
        if not re.fullmatch("[0-9]{1,18}", text):
            msg = "Must be a whole number."
            raise ValueError(msg)
        return int(text)
    return text


QueryInt = Annotated[int, BeforeValidator(_integer)]


class Query(BaseModel):
    """The parameters of one route, by alias."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def refuse_nul(cls, value: object) -> object:
        """PostgreSQL has no text with NUL in it."""
        if isinstance(value, str) and "\x00" in value:
            msg = "Holds a NUL character."
            raise ValueError(msg)
        return value

    @classmethod
    def parse(cls, given: QueryDict) -> Self:
        """Read the parameters of a request.

        Raises:
            InvalidSpec: one is unknown, given twice or ill-formed.
        """
        values: dict[str, Any] = dict(given.items())
        twice = [
            FieldError(key, "Is given twice.") for key in given if len(given.getlist(key)) > 1
        ]
        if twice:
            raise invalid_spec(twice)
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise invalid_spec(field_errors(error)) from error


class NoQuery(Query):
    """No parameter at all."""


class DeletionQuery(Query):
    """What every deletion takes: its key is in the address, since it has no body."""

    operation_id: OperationID = Field(alias="operationID")


class PageQuery(Query):
    """What every list takes; its own filters are added by inheritance."""

    limit: QueryInt = Field(
        default=50, ge=1, le=200, description="At most so many rows.", examples=[50]
    )
    cursor: str | None = Field(
        default=None, description="Where the page before ended: its `page.next`."
    )
