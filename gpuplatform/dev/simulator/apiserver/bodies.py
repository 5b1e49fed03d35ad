"""Parsing of JSON and YAML request bodies, with the error messages of Kubernetes."""

import json
import re
from collections.abc import Iterator
from typing import Any

from gpuplatform.dev.simulator.apiserver.errors import ApiError, bad_request
from gpuplatform.dev.simulator.apiserver.objects import from_bytes
from gpuplatform.dev.simulator.apiserver.writes import APPLY, JSON, MERGE, STRATEGIC

_PLAIN = ("application/json", "application/yaml")
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_PATCHES = (JSON, MERGE, STRATEGIC, APPLY)
_UNSUPPORTED = "UnsupportedMediaType"
# Since 1.32, the generators of kubectl send protobuf, and nothing makes them fall back to JSON.
_PROTOBUF_REMEDY = (
    "Not simulated: bodies in protobuf. Let kubectl write a manifest, and send it as JSON:"
    " kubectl create ... --dry-run=client --output=yaml | kubectl create --filename=-"
)
_CONVERSION_ERROR = "error decoding YAML: error converting YAML to JSON"
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")
_UNSAFE_IN_YAML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")


def media_type(header: str) -> str:
    """Return the media type of a Content-Type header."""
    return header.partition(";")[0].strip().lower()


def unknown_media_type(accepted: tuple[str, ...]) -> ApiError:
    """Return the error 415 (unsupported media type)."""
    message = (
        "the body of the request was in an unknown format - accepted media types include:"
        f" {', '.join(accepted)}"
    )
    return ApiError(415, _UNSUPPORTED, message)


def read_object(raw: bytes, content_type: str) -> Any:
    """Return the object in the JSON or YAML body of a POST, PUT or DELETE request.

    Raises:
        ApiError: 400 if the body is malformed; 415 if the media type is not supported.
    """
    kind = media_type(content_type) or _PLAIN[0]
    if kind == _PROTOBUF:
        raise ApiError(415, _UNSUPPORTED, _PROTOBUF_REMEDY)
    if kind not in _PLAIN:
        raise unknown_media_type(_PLAIN)
    if kind == "application/yaml":
        return _yaml(raw)
    try:
        return from_bytes(raw)
    except (ValueError, RecursionError) as error:
        message = f"couldn't get version/kind; json parse error: {error}"
        raise bad_request(message) from error


def repeated_fields(raw: bytes, content_type: str) -> list[str]:
    """Return the paths of fields that occur more than once in a JSON body."""
    if media_type(content_type) not in {"", _PLAIN[0]}:
        return []
    repeated: dict[int, set[str]] = {}

    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            names = [name for name, _ in pairs]
            repeated[id(members)] = {name for name in names if names.count(name) > 1}
        return members

    whole = json.loads(raw.decode("utf-8", "replace"), object_pairs_hook=read)
    return list(_paths(whole, repeated, "")) if repeated else []


def _paths(value: Any, repeated: dict[int, set[str]], path: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, repeated, f"{path}[{index}]")
    elif isinstance(value, dict):
        start = f"{path}." if path else ""
        yield from (start + name for name in sorted(repeated.get(id(value), ())))
        for name, member in value.items():
            yield from _paths(member, repeated, start + name)


def read_patch(raw: bytes, content_type: str, *, is_custom: bool) -> tuple[str, Any]:
    """Return the media type of a patch and its parsed content.

    Raises:
        ApiError: 400 if the body is malformed; 415 if the patch type is not supported.
    """
    kind = media_type(content_type)
    accepted = tuple(p for p in _PATCHES if not (is_custom and p == STRATEGIC))
    if kind not in accepted:
        raise unknown_media_type(accepted)
    if kind == APPLY:
        return kind, _yaml(raw)
    try:
        return kind, from_bytes(raw)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"error decoding patch: {error}") from error


def _yaml(raw: bytes) -> Any:
    """Parse YAML. For JSON, the usual case, only YAML's rules for characters are checked."""
    try:
        text = raw.decode()
        value = from_bytes(raw)
    except (ValueError, RecursionError):
        return _real_yaml(raw)
    if _SURROGATE_ESCAPE.search(raw):
        message = "yaml: found invalid Unicode character escape code"
        raise bad_request(f"{_CONVERSION_ERROR}: {message}")
    if _UNSAFE_IN_YAML.search(text):
        raise bad_request(f"{_CONVERSION_ERROR}: yaml: control characters are not allowed")
    return value


def _real_yaml(raw: bytes) -> Any:
    import yaml  # noqa: PLC0415 - uses memory and is rarely needed

    try:
        return yaml.load(raw, Loader=_plain_loader(yaml))  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise bad_request(f"{_CONVERSION_ERROR}: {error}") from error


def _plain_loader(yaml: Any) -> Any:
    """Return a safe YAML loader that loads timestamps as strings, as JSON does."""
    loader: Any = type("PlainLoader", (yaml.CSafeLoader,), {})
    loader.yaml_implicit_resolvers = {
        first: [(tag, regexp) for tag, regexp in found if tag != "tag:yaml.org,2002:timestamp"]
        for first, found in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }
    return loader
