"""JSON as RFC 8259 means it, read without guessing. Pure.

The standard decoder takes what two readers would read differently: duplicate keys (the last wins),
NaN, 1e400 as infinity, lone surrogates, any depth until the stack ends. Each is refused here, with
its path.
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
"""Far beyond every bound of ours, far below what costs time to convert."""


@dataclass(frozen=True, slots=True)
class _Refused:
    """Stands where something was that may not be there; the walk finds it and knows its path."""

    message: str
    key: str | None = None


def loads(body: bytes) -> Any:
    """Return what the JSON text says.

    Raises:
        RequestError: it is no JSON, or says something that cannot be taken at its word.
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
        msg = f"The body is not UTF-8: byte {error.start} does not fit."
        raise RequestError(msg) from error


def _decoded(text: str) -> Any:
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_fraction,
            parse_constant=lambda name: _Refused(f"{name} is not JSON."),
        )
    except json.JSONDecodeError as error:
        msg = f"The body is not JSON: line {error.lineno}, column {error.colno}: {error.msg}."
        raise RequestError(msg) from error
    except RecursionError as error:
        raise _too_deep() from error


def _too_deep() -> RequestError:
    return RequestError(f"The body is nested more than {MAX_DEPTH} levels deep.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Refused:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            return _Refused("Is given twice.", key)
        found[key] = value
    return found


def _integer(digits: str) -> int | _Refused:
    if len(digits) > MAX_DIGITS:
        return _Refused(f"Has more than {MAX_DIGITS} digits.")
    return int(digits)


def _fraction(digits: str) -> float | _Refused:
    value = float(digits)
    return value if math.isfinite(value) else _Refused("Is too large a number.")


def _fault(value: object, path: tuple[str | int, ...]) -> FieldError | None:
    """Return the first fault at or below `value`."""
    if len(path) > MAX_DEPTH:
        raise _too_deep()
    match value:
        case _Refused(message, key):
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
        return FieldError(json_path(path), "Holds a NUL character.")
    try:
        no_surrogates(text)
    except ValueError as error:
        return FieldError(json_path(path), str(error))
    return None
