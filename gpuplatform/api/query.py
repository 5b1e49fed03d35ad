"""Models of query parameters. Unknown, repeated and malformed parameters are rejected.

Views without parameters use `NoQuery`.
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
"""Maximum number of values of one filter."""


def _integer(text: object) -> object:
    """Convert decimal digits to an integer. Pydantic also accepts ' 1 ', '1_0' and '1.0'."""
    if isinstance(text, str):
        if not re.fullmatch("-?[0-9]{1,18}", text):
            msg = "Must be an integer."
            raise ValueError(msg)
        return int(text)
    return text


WholeNumber: Final = BeforeValidator(_integer)
"""Validator of an integer parameter. Last in `Annotated`, so that the schema has the bounds."""


@dataclass(frozen=True, slots=True)
class _Repeatable:
    """The mark of a parameter that accepts several values, repeated or separated by commas."""


T = TypeVar("T")
Several = Annotated[tuple[T, ...], Field(max_length=MAX_VALUES), _Repeatable()]
"""A filter that selects rows with one of several values. `()` selects all rows."""
Word = Annotated[str, Field(min_length=1, max_length=63)]


class Query(BaseModel):
    """Base class of the query parameters of a route."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def reject_nul(cls, value: object) -> object:
        """Reject NUL characters, which PostgreSQL does not store."""
        texts = value if isinstance(value, list) else [value]
        if any(isinstance(text, str) and "\x00" in text for text in texts):
            msg = "Contains a NUL character."
            raise ValueError(msg)
        return value

    @classmethod
    def parse(cls, given: QueryDict) -> Self:
        """Return the parsed query parameters of a request.

        Raises:
            InvalidSpec: If a parameter is unknown, repeated or malformed.
        """
        values: dict[str, Any] = dict(given.items())
        repeatable = cls._repeatable()
        for key in repeatable & values.keys():
            values[key] = [one for text in given.getlist(key) for one in text.split(",")]
        repeated = [
            FieldError(key, "Must not be repeated.")
            for key in given
            if key not in repeatable and len(given.getlist(key)) > 1
        ]
        if repeated:
            raise invalid_spec(repeated)
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            errors = (FieldError(_name(one.field), one.message) for one in field_errors(error))
            raise invalid_spec(dict.fromkeys(errors)) from error

    @classmethod
    def _repeatable(cls) -> set[str]:
        return {
            declared.alias or name
            for name, declared in cls.model_fields.items()
            if _Repeatable() in declared.metadata
        }


def _name(path: str) -> str:
    """Return the parameter name in a JSON path, such as `phase` for `phase[1]`."""
    return path.partition("[")[0]


class NoQuery(Query):
    """The query of a route without parameters."""


class DeletionQuery(Query):
    """The query parameters of a DELETE request, which has no body."""

    operation_id: OperationID = Field(alias="operationID")


class PageQuery(Query):
    """The query parameters of every list. Subclasses add filters."""

    limit: Annotated[int, Field(ge=1, le=200), WholeNumber] = Field(
        default=50,
        description="Maximum number of items. A response of 1 MiB ends earlier.",
        examples=[50],
    )
    cursor: str | None = Field(
        default=None,
        description="Value of `page.next` of the previous page.",
    )

    @property
    def is_filtered(self) -> bool:
        """Whether the query has a parameter besides the page and the namespace."""
        return not self.model_fields_set <= {"limit", "cursor", "namespace"}
