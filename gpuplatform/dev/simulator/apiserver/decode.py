"""Decoding of built-in kinds as in Go: a wrong type is an error, and unknown fields are dropped.

Custom resources are not decoded. `schema` validates their types.
"""

import base64
import re
from datetime import datetime
from typing import Any

from gpuplatform.dev.simulator.apiserver.errors import ApiError, bad_request
from gpuplatform.dev.simulator.apiserver.objects import json_type
from gpuplatform.dev.simulator.apiserver.schema import INT_OR_STRING, PRESERVE, Schema
from gpuplatform.formats.quantity import Quantity

_LIMITS = {"int32": 2**31, "int64": 2**63}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_QUANTITY_MESSAGE = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


class Decoder:
    """A decoder for one object. `unknown` contains the paths of dropped fields."""

    def __init__(self, kind: str, version: str) -> None:
        self.kind = kind
        self.version = version
        self.unknown: list[str] = []

    def clean(
        self, value: dict[str, Any], schema: Schema, path: str = "", owner: str = ""
    ) -> dict[str, Any]:
        """Return a copy of `value` without unknown fields and omitted empty values.

        Raises:
            ApiError: 400 if a value has the wrong JSON type or an invalid format.
        """
        properties, extra = schema.get("properties", {}), schema.get("additionalProperties")
        clean: dict[str, Any] = {}
        for key, member in value.items():
            here = f"{path}.{key}" if path else key
            sub = properties.get(key, extra)
            if sub is None:
                if schema.get(PRESERVE):
                    clean[key] = member
                else:
                    self.unknown.append(here)
            elif extra and member is not None:
                clean[key] = self._value(member, sub, path, owner)
            elif member is not None and not _is_omitted(member, sub):
                clean[key] = self._value(member, sub, here, schema.get("x-type", owner))
        return clean

    def _value(self, value: Any, schema: Schema, path: str, owner: str) -> Any:
        kind = schema.get("type")
        if kind == "object" and isinstance(value, dict):
            return self.clean(value, schema, path, owner)
        if kind == "array" and isinstance(value, list):
            items = schema["items"]
            filler: object = "" if items.get("type") == "string" else {}
            return [
                self._value(filler if item is None else item, items, f"{path}[{index}]", owner)
                for index, item in enumerate(value)
            ]
        if kind == "quantity":
            return self._quantity(value)
        if not _scalar_fits(value, schema):
            raise self._wrong_type(value, schema, path, owner)
        if "format" in schema and kind == "string":
            self._check_format(value, schema["format"])
        return value

    def _check_format(self, text: str, name: str) -> None:
        if name == "date-time" and not _is_time(text):
            layout = '"2006-01-02T15:04:05Z07:00"'
            raise self._error(f'parsing time "{text}" as {layout}: cannot parse "{text}"')
        if name == "byte":
            try:
                base64.b64decode(text, validate=True)
            except ValueError as error:
                raise self._error("illegal base64 data") from error

    def _quantity(self, value: Any) -> str:
        text = str(value).strip(" ") if isinstance(value, str | int | float) else ""
        try:
            return Quantity.parse(text).canonical()
        except ValueError as error:
            raise self._error(_QUANTITY_MESSAGE) from error

    def _wrong_type(self, value: Any, schema: Schema, path: str, owner: str) -> ApiError:
        field = re.sub(r"\[\d+\]", "", path)
        got = json_type(value)
        if isinstance(value, int | float) and schema.get("type") == "integer":
            got = f"number {value}"
        return self._error(
            f"json: cannot unmarshal {got} into Go struct field {owner}.{field}"
            f" of type {_go_type(schema)}"
        )

    def _error(self, reason: str) -> ApiError:
        version = self.version.rpartition("/")[2]
        return bad_request(
            f'{self.kind} in version "{version}" cannot be handled as a {self.kind}: {reason}'
        )


def _is_omitted(value: Any, schema: Schema) -> bool:
    """Return whether Go omits `value` when it encodes an object: an empty string, list or map."""
    return value in ("", []) or (value == {} and "additionalProperties" in schema)


def _scalar_fits(value: Any, schema: Schema) -> bool:
    if schema.get(INT_OR_STRING):
        return isinstance(value, int | str) and not isinstance(value, bool)
    kind = schema.get("type")
    if kind == "integer":
        limit = _LIMITS[schema.get("format", "int64")]
        return type(value) is int and -limit <= value < limit
    known: dict[str | None, type | tuple[type, ...]] = {
        None: object,
        "string": str,
        "boolean": bool,
        "number": (int, float),
    }
    return isinstance(value, known.get(kind, ()))


def _is_time(text: str) -> bool:
    if not _TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _go_type(schema: Schema) -> str:
    kind = schema.get("type")
    if kind == "array":
        return "[]" + _go_type(schema["items"])
    if kind == "object" and "x-type" not in schema:
        return "map[string]" + _go_type(schema.get("additionalProperties", {}))
    names = {"object": f"v1.{schema.get('x-type')}", "boolean": "bool", None: "intstr.IntOrString"}
    return str(schema.get("format", "int64")) if kind == "integer" else names.get(kind, "string")
