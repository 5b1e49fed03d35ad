"""The changed fields of an object, without secret values. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpuplatform.formats.masking import MASK

MAX_CHANGES: Final = 100
"""Maximum number of changed fields of an entry; a last item contains the number of the others."""

MAX_TEXT: Final = 200
"""Maximum number of characters of a value."""

_SECRET: Final = frozenset(
    {
        # Values of variables and of webhooks, as in the admin.
        *("env", "envs", "onDone"),
        # Programs receive credentials in arguments, and an entry cannot be corrected.
        *("annotations", "args", "body", "command", "exec", "headers", "httpHeaders", "payload"),
        *("credentials", "password", "secret", "token"),
    }
)
"""Fields whose values are not recorded, only that they changed."""

_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Target:
    """The object of a request before its change."""

    uid: str = ""
    before: Mapping[str, Any] | None = None
    """The fields that the request can change, or `None` if they are not recorded."""
    tenant: str = ""
    """The tenant of the object, if it is not the tenant of the operation."""


def changed_fields(
    before: Mapping[str, Any] | None, after: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the fields of `after` that differ from `before`.

    Each item has the path of the `field`, the new value in `to` and, if there was one, the earlier
    value in `from`. A field that is only in `before` is unchanged, unless the field that contains
    it is in `after`: requests replace whole fields.
    """
    earlier = dict(_leaves({key: (before or {}).get(key) for key in after}))
    later = dict(_leaves(after))
    found = [
        _change(path, earlier.get(path, _ABSENT), later.get(path, _ABSENT))
        for path in dict.fromkeys((*later, *earlier))
        if _value(earlier.get(path, _ABSENT)) != _value(later.get(path, _ABSENT))
    ]
    more = len(found) - MAX_CHANGES
    return found if more <= 0 else [*found[:MAX_CHANGES], {"more": more}]


def _leaves(value: Any, path: str = "", *, is_secret: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield the path of each value that has no parts, with the value and whether it is secret."""
    if isinstance(value, Mapping) and value:
        for key, part in value.items():
            name = f"{path}.{key}" if path else str(key)
            yield from _leaves(part, name, is_secret=is_secret or key in _SECRET)
    elif isinstance(value, list | tuple) and any(isinstance(one, Mapping) for one in value):
        for place, part in enumerate(value):
            label = part.get("name", place) if isinstance(part, Mapping) else place
            yield from _leaves(part, f"{path}[{str(label)[:MAX_TEXT]}]", is_secret=is_secret)
    elif value not in (None, {}, [], ()):
        yield path, (value, is_secret)


def _value(leaf: Any) -> Any:
    return leaf if leaf is _ABSENT else leaf[0]


def _change(path: str, earlier: Any, later: Any) -> dict[str, Any]:
    given = {"from": earlier, "to": later}
    shown = {
        key: _shown(leaf[0], is_secret=leaf[1])
        for key, leaf in given.items()
        if leaf is not _ABSENT
    }
    return {"field": path[: 2 * MAX_TEXT], **shown}


def _shown(value: Any, *, is_secret: bool) -> Any:
    if is_secret:
        return MASK
    if isinstance(value, list | tuple):
        return [_shown(one, is_secret=False) for one in value[:MAX_CHANGES]]
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return f"{value[:MAX_TEXT]}…"
    return value
