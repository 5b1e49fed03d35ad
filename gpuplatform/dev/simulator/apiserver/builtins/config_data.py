"""Validation of ConfigMaps and Secrets: keys, size, required keys and immutability."""

from collections.abc import Iterator

from gpuplatform.dev.simulator.apiserver.builtins import formats
from gpuplatform.dev.simulator.apiserver.errors import (
    FieldError,
    forbidden_value,
    invalid_value,
    required,
)
from gpuplatform.dev.simulator.apiserver.objects import Manifest

_MOST_BYTES = 1024 * 1024
_ACCOUNT = "kubernetes.io/service-account.name"
_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""Required keys of a Secret by its type."""


def config_map_errors(obj: Manifest, old: Manifest | None) -> Iterator[FieldError]:
    """Yield the validation errors of a ConfigMap, or of its update from `old`."""
    yield from _key_errors(obj, "data")
    yield from _key_errors(obj, "binaryData")
    for key in obj.get("data", {}).keys() & obj.get("binaryData", {}).keys():
        detail = "duplicate of key present in binaryData"
        yield invalid_value(f"data[{key}]", key, detail)
    yield from _size_error(obj, "[]")
    yield from _fixed_errors(obj, old)


def secret_errors(obj: Manifest, old: Manifest | None) -> Iterator[FieldError]:
    """Yield the validation errors of a Secret, or of its update from `old`."""
    kind, data = obj["type"], obj.get("data", {})
    yield from _key_errors(obj, "data")
    yield from _size_error(obj, "data")
    yield from (required(f"data[{key}]") for key in _KEYS.get(kind, ()) if key not in data)
    if kind == "kubernetes.io/basic-auth" and not data.keys() & {"username", "password"}:
        yield from (required(f"data[{key}]") for key in ("username", "password"))
    annotations = obj["metadata"].get("annotations", {})
    if kind == "kubernetes.io/service-account-token" and not annotations.get(_ACCOUNT):
        yield required(f"metadata.annotations[{_ACCOUNT}]")
    if old and kind != old["type"]:
        yield invalid_value("type", kind, "field is immutable")
    yield from _fixed_errors(obj, old)


def _key_errors(obj: Manifest, part: str) -> Iterator[FieldError]:
    for key in obj.get(part, {}):
        yield from (invalid_value(f"{part}[{key}]", key, w) for w in formats.config_key(key))


def _size_error(obj: Manifest, path: str) -> Iterator[FieldError]:
    is_text = obj["kind"] == "ConfigMap"
    size = sum(len(value.encode()) for value in obj.get("data", {}).values() if is_text)
    encoded = obj.get("binaryData" if is_text else "data", {})
    size += sum(len(value) * 3 // 4 - value.count("=") for value in encoded.values())
    if size > _MOST_BYTES:
        detail = f"Too long: may not be more than {_MOST_BYTES} bytes"
        yield FieldError("FieldValueTooLong", path, detail)


def _fixed_errors(obj: Manifest, old: Manifest | None) -> Iterator[FieldError]:
    if not old or not old.get("immutable"):
        return
    detail = "field is immutable when `immutable` is set"
    if not obj.get("immutable"):
        yield forbidden_value("immutable", detail)
    for part in ("data", "binaryData"):
        if obj.get(part) != old.get(part):
            yield forbidden_value(part, detail)
