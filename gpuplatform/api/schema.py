"""The base of every reply, and how a reply's data is wrapped."""

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
"""Types of the validation errors that a JSON Schema expresses; rules of the models have others."""

_UPPER = {"id": "ID", "url": "URL", "uid": "uid"}


def api_alias(name: str) -> str:
    """Return the JSON name of a Python one: `operation_id` is `operationID`."""
    first, *rest = name.split("_")
    return first + "".join(_UPPER.get(part, part.capitalize()) for part in rest)


NullIfEmpty: Final = BeforeValidator(lambda value: value or None)
"""Converts an empty value of a column to null."""


class Reply(BaseModel):
    """Base of the models in `data`: created from a row or by name, written in camelCase."""

    model_config = ConfigDict(
        frozen=True,
        from_attributes=True,
        alias_generator=api_alias,
        validate_by_name=True,
        validate_by_alias=True,
        # A field is always present, also with its default: clients may rely on it.
        json_schema_serialization_defaults_required=True,
    )


class PageInfo(Reply):
    """The position of the next page."""

    next: str | None = Field(description="Cursor of the next page; null on the last one.")


@dataclass(frozen=True, slots=True)
class SchemaOf:
    """Annotation of a JSON object that is passed on unchanged, documented as a model's."""

    model: type[BaseModel]

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema of the model."""
        return handler(self.model.__pydantic_core_schema__)


def conforming_block(model: type[BaseModel], value: Any) -> dict[str, Any] | None:
    """Return a block of a resource's spec if it has the structure of the model.

    The cluster accepts some blocks that break a rule of the model; they are returned unchanged.
    """
    if not isinstance(value, dict):
        return None
    try:
        model.model_validate(value)
    except ValidationError as error:
        if any(fault["type"] in _STRUCTURAL for fault in error.errors(include_url=False)):
            return None
    return value


def words(*enums: type[StrEnum], empty: bool = False) -> dict[str, Any]:
    """Return the `json_schema_extra` of a string that is a member of one of `enums`.

    With `empty` also the empty string. The value is not validated: it comes from a status.
    """
    values = [member.value for enum in enums for member in enum]
    return {"enum": [*([""] if empty else []), *dict.fromkeys(values)]}


@lru_cache(maxsize=256)
def envelope_model(model: type[BaseModel], *, is_page: bool) -> type[BaseModel]:
    """Return the model of a reply with `model` in its `data`."""
    if is_page:
        rows: Any = GenericAlias(list, (model,))
        return create_model(
            f"{model.__name__}Page", __base__=Reply, data=(rows, ...), page=(PageInfo, ...)
        )
    return create_model(f"{model.__name__}Envelope", __base__=Reply, data=(model, ...))
