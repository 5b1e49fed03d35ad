"""Reads built-in kinds in Kubernetes' protobuf form, which `kubectl create` sends.

What a field's number means is in `numbers.json`, condensed from the Go types: `*` marks a pointer,
whose zero is a value, and `+` a message that JSON does not show. The rest follows from the schema.
"""

import json
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpuplatform.dev.simulator.apiserver.schema import INT_OR_STRING, PRESERVE, Schema, child

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_NUMBERS: dict[str, dict[str, str]] = {}


def read_protobuf(raw: bytes, types: dict[str, Schema]) -> dict[str, Any]:
    """Return the object in the envelope `raw`.

    Raises:
        ValueError: it is no such envelope, or of a kind that is not known.
    """
    if not raw.startswith(_MAGIC):
        raise ValueError("provided data does not appear to be a protobuf message")
    envelope = dict(_fields(raw[len(_MAGIC) :]))
    names = {number: value.decode() for number, value in _fields(envelope[1])}
    version, kind = names.get(1, ""), names.get(2, "")
    if kind not in types or kind not in _numbers():
        raise ValueError(f"no kind {kind} is read from protobuf")
    return {"apiVersion": version, "kind": kind} | _message(envelope[2], types[kind], kind)


def _numbers() -> dict[str, dict[str, str]]:
    if not _NUMBERS:
        path = Path(__file__).parent / "builtins" / "numbers.json"
        _NUMBERS.update(json.loads(path.read_text("utf-8")))
    return _NUMBERS


def _fields(raw: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field: an int, or bytes."""
    place = 0
    while place < len(raw):
        key, place = _varint(raw, place)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, place = _varint(raw, place)
            yield number, value
            continue
        sizes = {_FIXED_64: 8, _FIXED_32: 4}
        size, place = _varint(raw, place) if kind == _BYTES else (sizes[kind], place)
        if place + size > len(raw):
            raise ValueError("unexpected EOF")
        yield number, raw[place : place + size]
        place += size


def _varint(raw: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if place >= len(raw):
            raise ValueError("unexpected EOF")
        byte = raw[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place


def _message(raw: bytes, schema: Schema, kind: str) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for number, value in _fields(raw):
        name = _numbers()[kind].get(str(number), "")
        if name.startswith("+"):
            read |= _message(value, schema, name[1:])
        elif name:
            field = name.lstrip("*")
            _put(read, field, value, child(schema, field))
            if field == name and read[field] in (0, None):  # Go's zero, which JSON leaves out
                del read[field]
    return read


def _put(read: dict[str, Any], field: str, value: Any, schema: Schema) -> None:
    if schema.get("type") == "array":
        read.setdefault(field, []).append(_value(value, schema["items"]))
    elif "additionalProperties" in schema:
        entry = dict(_fields(value))
        key, item = entry.get(1, b"").decode(), entry.get(2, b"")
        read.setdefault(field, {})[key] = _value(item, schema["additionalProperties"])
    else:
        read[field] = _value(value, schema)


def _value(value: Any, schema: Schema) -> Any:
    kind = schema.get("type")
    if isinstance(value, int):
        return bool(value) if kind == "boolean" else _signed(value)
    if kind == "object" and not schema.get(PRESERVE):
        return _message(value, schema, schema["x-type"])
    if kind == "string" and schema.get("format") != "date-time":
        return b64encode(value).decode() if "format" in schema else value.decode()
    return _wrapped(dict(_fields(value)), schema)


def _wrapped(parts: dict[int, Any], schema: Schema) -> Any:
    """Read what is one value in JSON, and a message here."""
    if schema.get("type") == "quantity":
        return parts.get(1, b"0").decode() or "0"
    if schema.get(INT_OR_STRING):
        return parts[3].decode() if parts.get(1) else _signed(parts.get(2, 0))
    return json.loads(parts.get(1, b"null")) if schema.get(PRESERVE) else _time(parts)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _time(parts: dict[int, int]) -> str | None:
    """Return the time as JSON has it; None for Go's zero."""
    if not parts:
        return None
    moment = datetime.fromtimestamp(_signed(parts.get(1, 0)), UTC)
    nanos = parts.get(2, 0)
    return f"{moment:%Y-%m-%dT%H:%M:%S}" + (f".{nanos // 1000:06d}Z" if nanos else "Z")
