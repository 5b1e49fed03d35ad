"""Strict parser of JSON, as in RFC 8259. Pure.

The standard decoder accepts documents that parsers interpret differently: duplicate keys (the last
wins), NaN, 1e400 as infinity, lone surrogates, any depth until the stack overflows. This parser
refuses each of them with its path.
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
"""Above every bound of the API, and small enough to convert quickly."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Replaces a refused value in the parsed document, where the walk finds it with its path."""

    message: str
    key: str | None = None


def loads(body: bytes) -> Any:
    """Return the parsed JSON text.

    Raises:
        RequestError: it is not JSON, or has a value that parsers interpret differently.
    """
    value = _decoded(_text(body))
    if fault := _fault(value, ()):
        where = f"{fault.field}: " if fault.field else ""
        raise RequestError(f"{where}{fault.message}", details=[fault])
    return value


def _text(body: bytes) -> str:
    if not body.strip():
        raise RequestError("The body is empty. Send a JSON object.")
    if body.startswith(b"\xef\xbb\xbf"):
        raise RequestError("The body starts with a byte order mark. Send JSON without one.")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        msg = f"The body is not UTF-8: byte {error.start} is invalid."
        raise RequestError(msg) from error


def _decoded(text: str) -> Any:
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_fraction,
            parse_constant=lambda name: _Refusal(f"{name} is not JSON."),
        )
    except json.JSONDecodeError as error:
        msg = f"The body is not JSON: line {error.lineno}, column {error.colno}: {error.msg}."
        raise RequestError(msg) from error
    except RecursionError as error:
        raise _too_deep() from error


def _too_deep() -> RequestError:
    return RequestError(f"The body is nested more than {MAX_DEPTH} levels deep.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Refusal:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            return _Refusal("Must be unique in its object.", key)
        found[key] = value
    return found


def _integer(digits: str) -> int | _Refusal:
    if len(digits) > MAX_DIGITS:
        return _Refusal(f"Has more than {MAX_DIGITS} digits.")
    return int(digits)


def _fraction(digits: str) -> float | _Refusal:
    value = float(digits)
    return value if math.isfinite(value) else _Refusal("Is too large.")


def _fault(value: object, path: tuple[str | int, ...]) -> FieldError | None:
    """Return the first fault at or below `value`."""
    if len(path) > MAX_DEPTH:
        raise _too_deep()
    match value:
        case _Refusal(message, key):
            return FieldError(json_path(path if key is None else (*path, key)), message)
        case str():
            return _text_fault(value, path)
        case dict():
            keys = (
                _key_fault(key, path) or _fault(one, (*path, key)) for key, one in value.items()
            )
            return next(filter(None, keys), None)
        case list():
            entries = (_fault(one, (*path, index)) for index, one in enumerate(value))
            return next(filter(None, entries), None)
        case _:
            return None


def _key_fault(key: str, path: tuple[str | int, ...]) -> FieldError | None:
    fault = _text_fault(key, path)
    return fault and FieldError(fault.field, f"The key {quoted(key)}: {fault.message}")


def _text_fault(text: str, path: tuple[str | int, ...]) -> FieldError | None:
    if "\x00" in text:
        return FieldError(json_path(path), "Contains a NUL character.")
    try:
        no_surrogates(text)
    except ValueError as error:
        return FieldError(json_path(path), str(error))
    return None
