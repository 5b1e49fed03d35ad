"""Query parameters, declared like bodies: an unknown, repeated or malformed one is refused.

A view without parameters has `NoQuery`.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Final, Self, TypeVar

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

MAX_VALUES: Final = 20
"""Values of one filter."""


def _integer(text: object) -> object:
    """Accept digits only: pydantic alone would accept ' 1 ', '1_0' and '1.0' too."""
    if isinstance(text, str):
        if not re.fullmatch("-?[0-9]{1,18}", text):
            msg = "Must be a whole number."
            raise ValueError(msg)
        return int(text)
    return text


WholeNumber: Final = BeforeValidator(_integer)
"""Reads an `Annotated[int, …]` of a query; stands last, so that its bounds are documented."""


@dataclass(frozen=True, slots=True)
class _Repeatable:
    """Marks a parameter that takes several values: repeated, or separated by commas."""


T = TypeVar("T")
Several = Annotated[tuple[T, ...], Field(max_length=MAX_VALUES), _Repeatable()]
"""A filter with several values, of which a row has one; `()` without the filter."""
Word = Annotated[str, Field(min_length=1, max_length=63)]


class Query(BaseModel):
    """The parameters of one route, by alias."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def refuse_nul(cls, value: object) -> object:
        """PostgreSQL has no text with NUL in it."""
        texts = value if isinstance(value, list) else [value]
        if any(isinstance(text, str) and "\x00" in text for text in texts):
            msg = "Contains a NUL character."
            raise ValueError(msg)
        return value

    @classmethod
    def parse(cls, given: QueryDict) -> Self:
        """Read the parameters of a request.

        Raises:
            InvalidSpec: one is unknown, given more than once or malformed.
        """
        values: dict[str, Any] = dict(given.items())
        repeatable = cls._repeatable()
        for key in repeatable & values.keys():
            values[key] = [one for text in given.getlist(key) for one in text.split(",")]
        repeated = [
            FieldError(key, "May be given only once.")
            for key in given
            if key not in repeatable and len(given.getlist(key)) > 1
        ]
        if repeated:
            raise invalid_spec(repeated)
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            faults = (FieldError(_name(one.field), one.message) for one in field_errors(error))
            raise invalid_spec(dict.fromkeys(faults)) from error

    @classmethod
    def _repeatable(cls) -> set[str]:
        return {
            declared.alias or name
            for name, declared in cls.model_fields.items()
            if _Repeatable() in declared.metadata
        }


def _name(path: str) -> str:
    """Return the parameter of a path: `phase[1]` is a value of `phase`."""
    return path.partition("[")[0]


class NoQuery(Query):
    """No parameters."""


class DeletionQuery(Query):
    """The parameter of every deletion, which has no body."""

    operation_id: OperationID = Field(alias="operationID")


class PageQuery(Query):
    """The parameters of every list; its own filters are added by inheritance."""

    limit: Annotated[int, Field(ge=1, le=200), WholeNumber] = Field(
        default=50, description="Maximum number of rows.", examples=[50]
    )
    cursor: str | None = Field(default=None, description="The `page.next` of the previous page.")
