"""Functions for Kubernetes objects as dicts: copying, identity and JSON."""

import json
import marshal
import re
import secrets
import uuid
from typing import Any, TypeAlias, TypeVar

from gpuplatform import clock

Manifest: TypeAlias = dict[str, Any]
_Json = TypeVar("_Json")

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SURROGATE = re.compile("[\ud800-\udfff]")


def clone(value: _Json) -> _Json:
    """Return a deep copy of JSON data. This is much faster than `copy.deepcopy`."""
    plain: Any = value
    copied: _Json = marshal.loads(marshal.dumps(plain))  # noqa: S302 - bytes of this process
    return copied


def to_bytes(value: object) -> bytes:
    """Return `value` as compact JSON in UTF-8."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def from_bytes(raw: bytes) -> Any:
    """Parse JSON as Go does: invalid UTF-8 and lone surrogates become U+FFFD.

    Raises:
        ValueError: If `raw` is not valid JSON.
    """
    value = json.loads(raw.decode("utf-8", "replace"))
    if b"\\u" in raw:
        text = json.dumps(value, ensure_ascii=False)
        if _SURROGATE.search(text):
            value = json.loads(_SURROGATE.sub("\ufffd", text))
    return value


def now() -> str:
    """Return the current time in the timestamp format of Kubernetes."""
    return clock.rfc3339(clock.now())


def new_uid() -> str:
    """Return a new UID."""
    return str(uuid.uuid4())


def random_suffix() -> str:
    """Return five random characters, which are appended to `generateName`."""
    return "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(5))


def controller_of(obj: Manifest) -> Manifest | None:
    """Return the owner reference to the controller of `obj`, or `None` if it has no controller."""
    references = obj["metadata"].get("ownerReferences", ())
    return next((r for r in references if r.get("controller")), None)


def condition(obj: Manifest, kind: str) -> Manifest:
    """Return the condition of `obj` with the type `kind`, or an empty dict."""
    conditions = obj.get("status", {}).get("conditions") or ()
    return next((c for c in conditions if c.get("type") == kind), {})


def set_condition(status: Manifest, new: Manifest, *, progressed: bool = False) -> None:
    """Set the condition `new` in `status`. Its times change only if its content changes.

    `progressed` updates `lastUpdateTime` even if the condition is unchanged.
    """
    conditions = status.setdefault("conditions", [])
    old = next((c for c in conditions if c.get("type") == new["type"]), None)
    if old is None:
        conditions.append({**new, "lastUpdateTime": now(), "lastTransitionTime": now()})
        return
    if progressed or any(old.get(key) != value for key, value in new.items()):
        same = old.get("status") == new["status"]
        transition = old.get("lastTransitionTime", now()) if same else now()
        old.update({**new, "lastUpdateTime": now(), "lastTransitionTime": transition})


def json_type(value: object) -> str:
    """Return the type name of `value` that Go's JSON decoder uses in error messages."""
    if isinstance(value, bool):
        return "bool"
    names = {dict: "object", list: "array", str: "string", int: "number", float: "number"}
    return names.get(type(value), "null")
