"""The base of every declared spec, status and request body, and the messages of its faults.

One frozen pydantic model is the request validation, the OpenAPI component, the CRD schema and the
reconciler's `InvalidSpec`. JSON types are exact ("1", true and 1.0 are not integers), unknown
fields and nulls are refused, and every fault has a JSON path and a message.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    ValidationError,
    field_validator,
)
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError
from typing_extensions import override

from gpuplatform.errors import FieldError, InvalidSpec
from gpuplatform.formats.text import quoted

MAX_FAULTS = 20
"""Limit of the faults in a reply, whatever the body contains."""

_PLAIN_KEY = re.compile("[A-Za-z0-9_-]{1,64}")
_JSON_WORDS = {
    "str": "a string",
    "int": "an integer",
    "float": "a number with a fraction",
    "bool": "a boolean",
    "NoneType": "null",
    "dict": "an object",
    "list": "a list",
}
_WANTED = {
    "int_type": "an integer",
    "string_type": "a string",
    "bool_type": "a boolean",
    "tuple_type": "a list",
    "list_type": "a list",
    "model_type": "an object",
    "dict_type": "an object",
    "float_type": "a number",
}


class SpecModel(BaseModel):
    """A frozen value read from JSON by alias; omitted optional fields are None."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @field_validator("*", mode="before")
    @classmethod
    def refuse_null(cls, value: object) -> object:
        """Refuse null, so that an absent field has one spelling."""
        if value is None:
            raise PydanticCustomError("null", "Must not be null. Omit the field instead.")
        return value

    @classmethod
    @override
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> dict[str, Any]:
        """Return the schema in which optional fields are absent or of their type, never null."""
        schema = handler(core_schema)
        target = handler.resolve_ref_schema(schema)
        for name, declared in target.get("properties", {}).items():
            target["properties"][name] = _without_null(declared)
        return schema

    @classmethod
    def parse(cls, raw: object) -> Self:
        """Return the model of parsed JSON.

        Raises:
            InvalidSpec: it breaks rules; `details` has each fault.
        """
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise invalid_spec(field_errors(error)) from error

    def normalised(self) -> dict[str, Any]:
        """Return the canonical JSON object of this value, without defaults."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def invalid_spec(details: Iterable[FieldError]) -> InvalidSpec:
    """Return the error for these faults; its message states the first."""
    faults = list(details)
    first = faults[0]
    sentence = f"{first.field}: {first.message}" if first.field else first.message
    if len(faults) > 1:
        more = len(faults) - 1
        sentence += f" ({more} more {'fault' if more == 1 else 'faults'}.)"
    return InvalidSpec(sentence, details=faults[:MAX_FAULTS])


def field_errors(error: ValidationError) -> list[FieldError]:
    """Return each fault of a validation with its JSON path and a message."""
    return [
        FieldError(json_path(fault["loc"]), _sentence(fault))
        for fault in error.errors(include_url=False)
    ]


def json_path(location: Iterable[str | int]) -> str:
    """Return a path such as `template.ports[1].name`; empty for the whole object."""
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            path += f".{step}" if path else step
        else:
            path += f"[{quoted(step)}]"
    return path


def _without_null(declared: Mapping[str, Any]) -> dict[str, Any]:
    schema = {key: value for key, value in declared.items() if key != "anyOf"}
    if schema.get("default", "") is None:
        del schema["default"]
    options = [one for one in declared.get("anyOf", []) if one != {"type": "null"}]
    match options:
        case []:
            return schema
        case [only]:
            return {**only, **schema}
        case _:
            return {**schema, "anyOf": options}


def _sentence(fault: ErrorDetails) -> str:
    kind, context = fault["type"], fault.get("ctx", {})
    if kind in _WANTED:
        given = _JSON_WORDS.get(type(fault["input"]).__name__, "something else")
        return f"Must be {_WANTED[kind]}, not {given}."
    match kind:
        case "missing":
            return "Is required."
        case "extra_forbidden":
            return "Is not a known field."
        case "value_error":
            return str(context["error"])
        case "literal_error" | "enum":
            return f"Must be {context['expected']}."
        case _:
            return _bound(kind, context) or f"{fault['msg'].rstrip('.')}."


def _bound(kind: str, context: Mapping[str, Any]) -> str:
    match kind:
        case "greater_than_equal":
            return f"Must be {context['ge']} or more."
        case "less_than_equal":
            return f"Must be {context['le']} or less."
        case "too_long":
            return f"May have at most {context['max_length']} entries."
        case "string_too_long":
            return f"May have at most {context['max_length']} characters."
        case "string_too_short":
            return f"Must have at least {context['min_length']} characters."
        case _:
            return ""
