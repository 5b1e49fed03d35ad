"""Base class of the response models, and the envelope of a response."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from types import GenericAlias
from typing import Any, Final, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    create_model,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from pydantic_core.core_schema import ErrorType

_STRUCTURAL = {*get_args(ErrorType), "null"} - {"value_error"}
"""Types of validation errors that a JSON Schema can express, unlike `value_error`."""

_UPPER = {"id": "ID", "url": "URL", "uid": "uid"}


def api_alias(name: str) -> str:
    """Return the JSON name of a Python name: `operationID` for `operation_id`."""
    first, *rest = name.split("_")
    return first + "".join(_UPPER.get(part, part.capitalize()) for part in rest)


NullIfEmpty: Final = BeforeValidator(lambda value: value or None)
"""Converts an empty value of a column to null."""


class Reply(BaseModel):
    """Base class of the response models. They are created from rows or by field name."""

    model_config = ConfigDict(
        frozen=True,
        from_attributes=True,
        alias_generator=api_alias,
        validate_by_name=True,
        validate_by_alias=True,
        # Every field is present in a response, including fields with their default.
        json_schema_serialization_defaults_required=True,
    )

    def without(self, *names: str) -> "PartialReply":
        """Return the response without these fields in its JSON; see `optional`."""
        return PartialReply(self, frozenset(names))


@dataclass(frozen=True, slots=True)
class PartialReply:
    """A response whose JSON does not contain some of its fields."""

    reply: Reply
    omitted: frozenset[str]


def optional(*names: str) -> Callable[[dict[str, Any]], None]:
    """Return the `json_schema_extra` of a model whose fields `names` can be omitted."""

    def declare(schema: dict[str, Any]) -> None:
        schema["required"] = [name for name in schema["required"] if name not in names]

    return declare


class PageInfo(Reply):
    """Pagination of a list."""

    next: str | None = Field(description="Cursor of the next page. Null on the last page.")


@dataclass(frozen=True, slots=True)
class SchemaOf:
    """Annotation that documents an unvalidated JSON object with the schema of `model`."""

    model: type[BaseModel]

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema of the model."""
        return handler(self.model.__pydantic_core_schema__)


def conforming_block(model: type[BaseModel], value: Any) -> dict[str, Any] | None:
    """Return a block of a resource's spec unchanged if it has the structure of the model.

    Returns `None` for any other value. The block may violate a rule of the model that the cluster
    does not enforce.
    """
    if not isinstance(value, dict):
        return None
    try:
        model.model_validate(value)
    except ValidationError as error:
        if any(one["type"] in _STRUCTURAL for one in error.errors(include_url=False)):
            return None
    return value


def words(*enums: type[StrEnum], empty: bool = False) -> dict[str, Any]:
    """Return the `json_schema_extra` of a string with the values of `enums`.

    `empty` adds the empty string. The schema documents the values but does not validate them:
    they are copied from a status.
    """
    values = [member.value for enum in enums for member in enum]
    return {"enum": [*([""] if empty else []), *dict.fromkeys(values)]}


@lru_cache(maxsize=256)
def envelope_model(model: type[BaseModel], *, is_page: bool) -> type[BaseModel]:
    """Return the response model with `model`, or a list of it, as `data`."""
    if is_page:
        rows: Any = GenericAlias(list, (model,))
        return create_model(
            f"{model.__name__}Page", __base__=Reply, data=(rows, ...), page=(PageInfo, ...)
        )
    return create_model(f"{model.__name__}Envelope", __base__=Reply, data=(model, ...))
