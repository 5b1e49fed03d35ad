"""Strict JSON parser (RFC 8259). Pure.

Python's decoder accepts documents that other parsers interpret differently: duplicate keys, NaN,
numbers such as 1e400, lone surrogates, and any depth up to a stack overflow. This parser rejects
them and reports the path of the value.
"""

import json
import math
from dataclasses import dataclass
from typing import Any

from gpuplatform.errors import FieldError, RequestError
from gpuplatform.formats.model import json_path
from gpuplatform.formats.text import no_surrogates, quoted

MAX_DEPTH = 64
MAX_DIGITS = 64
"""More digits than any valid number of the API has, and few enough to convert quickly."""


@dataclass(frozen=True, slots=True)
class _Invalid:
    """A placeholder for an invalid value in the parsed document until `_error` finds its path."""

    message: str
    key: str | None = None


def loads(body: bytes) -> Any:
    """Return the parsed value of a JSON text.

    Raises:
        RequestError: If the text is not JSON, or if parsers interpret it differently.
    """
    value = _decoded(_text(body))
    if error := _error(value, ()):
        where = f"{error.field}: " if error.field else ""
        raise RequestError(f"{where}{error.message}", details=[error])
    return value


def _text(body: bytes) -> str:
    if not body.strip():
        raise RequestError("The body is empty. Send a JSON object.")
    if body.startswith(b"\xef\xbb\xbf"):
        raise RequestError("The body starts with a byte order mark. Send JSON without one.")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        msg = f"The body is not UTF-8: byte {error.start} is invalid. Encode it as UTF-8."
        raise RequestError(msg) from error


def _decoded(text: str) -> Any:
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_fraction,
            parse_constant=lambda name: _Invalid(f"{name} is not JSON."),
        )
    except json.JSONDecodeError as error:
        msg = f"The body is not JSON: line {error.lineno}, column {error.colno}: {error.msg}."
        raise RequestError(msg) from error
    except RecursionError as error:
        raise _too_deep() from error


def _too_deep() -> RequestError:
    return RequestError(f"The body is nested more than {MAX_DEPTH} levels deep.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Invalid:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            return _Invalid("Must be unique in its object.", key)
        found[key] = value
    return found


def _integer(digits: str) -> int | _Invalid:
    if len(digits) > MAX_DIGITS:
        return _Invalid(f"Has more than {MAX_DIGITS} digits.")
    return int(digits)


def _fraction(digits: str) -> float | _Invalid:
    value = float(digits)
    return value if math.isfinite(value) else _Invalid("Is too large.")


def _error(value: object, path: tuple[str | int, ...]) -> FieldError | None:
    """Return the first error in `value`, or `None` if it is valid."""
    if len(path) > MAX_DEPTH:
        raise _too_deep()
    match value:
        case _Invalid(message, key):
            return FieldError(json_path(path if key is None else (*path, key)), message)
        case str():
            return _text_error(value, path)
        case dict():
            keys = (
                _key_error(key, path) or _error(one, (*path, key)) for key, one in value.items()
            )
            return next(filter(None, keys), None)
        case list():
            entries = (_error(one, (*path, index)) for index, one in enumerate(value))
            return next(filter(None, entries), None)
        case _:
            return None


def _key_error(key: str, path: tuple[str | int, ...]) -> FieldError | None:
    error = _text_error(key, path)
    return error and FieldError(error.field, f"The key {quoted(key)}: {error.message}")


def _text_error(text: str, path: tuple[str | int, ...]) -> FieldError | None:
    if "\x00" in text:
        return FieldError(json_path(path), "Contains a NUL character.")
    try:
        no_surrogates(text)
    except ValueError as error:
        return FieldError(json_path(path), str(error))
    return None
