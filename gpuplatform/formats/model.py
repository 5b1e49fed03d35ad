"""Base class of specs, statuses and request bodies, and their validation errors.

The same model validates requests and specs, and defines the OpenAPI component and the CRD schema.
JSON types are exact: "1", true and 1.0 are not integers. Unknown fields and nulls are rejected.
Every validation error has a JSON path and a message.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    ValidationError,
    field_validator,
)
from pydantic_core import CoreSchema, ErrorDetails, InitErrorDetails, PydanticCustomError
from typing_extensions import override

from gpuplatform.errors import FieldError, InvalidSpec
from gpuplatform.formats.text import quoted

MAX_ERRORS = 20
"""Maximum number of validation errors in a response."""

_KEY_STEP = "[key]"
"""The last step of pydantic's location of an error of a key."""
_PLAIN_KEY = re.compile("[A-Za-z0-9_-]{1,64}")
_JSON_TYPES = {
    "str": "a string",
    "int": "an integer",
    "float": "a fractional number",
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
    """An immutable value, parsed from JSON by alias. Omitted optional fields are `None`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @field_validator("*", mode="before")
    @classmethod
    def reject_null(cls, value: object) -> object:
        """Reject null. An optional field must be omitted instead."""
        if value is None:
            raise PydanticCustomError("null", "Must not be null. Omit the field instead.")
        return value

    @classmethod
    @override
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> dict[str, Any]:
        """Return the schema, in which optional fields are not nullable."""
        schema = handler(core_schema)
        target = handler.resolve_ref_schema(schema)
        for name, declared in target.get("properties", {}).items():
            target["properties"][name] = _without_null(declared)
        return schema

    @classmethod
    def parse(cls, raw: object) -> Self:
        """Return the model for a parsed JSON value.

        Raises:
            InvalidSpec: If the value is invalid. `details` contains each error.
        """
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise invalid_spec(field_errors(error)) from error

    def normalised(self) -> dict[str, Any]:
        """Return the value as a canonical JSON object without defaults."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def reject_duplicates(keys: Sequence[str], field: str = "") -> None:
    """Raise a validation error at the second of two entries with the same key.

    If the entries are objects, `field` is the name of their field with the key.
    """
    seen: set[str] = set()
    for index, key in enumerate(keys):
        if key in seen:
            error = PydanticCustomError("duplicate", "{key} is not unique.", {"key": quoted(key)})
            location = (index, field) if field else (index,)
            raise ValidationError.from_exception_data(
                "list", [InitErrorDetails(type=error, loc=location, input=key)]
            )
        seen.add(key)


def invalid_spec(details: Iterable[FieldError]) -> InvalidSpec:
    """Return the error for invalid fields. Its message describes the first one."""
    errors = list(details)
    first = errors[0]
    message = f"{first.field}: {first.message}" if first.field else first.message
    if len(errors) > 1:
        more = len(errors) - 1
        message += f" ({more} more {'error' if more == 1 else 'errors'}.)"
    return InvalidSpec(message, details=errors[:MAX_ERRORS])


def field_errors(error: ValidationError) -> list[FieldError]:
    """Return the errors of a validation, each with its JSON path and a message."""
    return [
        FieldError(json_path(_without_key_step(one["loc"])), _message(one))
        for one in error.errors(include_url=False)
    ]


def _without_key_step(location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    return location[:-1] if location[-1:] == (_KEY_STEP,) else location


def json_path(location: Iterable[str | int]) -> str:
    """Return a JSON path such as `template.ports[1].name`, empty for the whole object."""
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


def _message(error: ErrorDetails) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in _WANTED:
        given = _JSON_TYPES.get(type(error["input"]).__name__, "another type")
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
            return _bound(kind, context) or f"{error['msg'].rstrip('.')}."


def _bound(kind: str, context: Mapping[str, Any]) -> str:
    match kind:
        case "greater_than_equal":
            return f"Must be {context['ge']} or more."
        case "less_than_equal":
            return f"Must be {context['le']} or less."
        case "too_long":
            return f"Must have at most {context['max_length']} items."
        case "string_too_long":
            return f"Must have at most {context['max_length']} characters."
        case "string_too_short":
            return f"Must have at least {context['min_length']} characters."
        case _:
            return ""
