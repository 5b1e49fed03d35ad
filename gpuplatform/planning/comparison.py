"""Comparison before a write, so that settled objects cost no write. Pure."""

from typing import Any

from gpuplatform.kube.kinds import Manifest

VOLATILE_STATUS_FIELDS = frozenset({"lastSyncTime"})


def contains(live: Any, wanted: Any) -> bool:
    """Return whether `live` has all values of `wanted`.

    Objects may have more keys; lists must be equal in length and element by element, except that
    lists of named objects are matched by name and may have more elements.
    """
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            key in live and contains(live[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(live, list) and _contains_items(live, wanted)
    return bool(live == wanted)


def _contains_items(live: list[Any], wanted: list[Any]) -> bool:
    if wanted and all(isinstance(item, dict) and "name" in item for item in wanted):
        by_name = {item.get("name"): item for item in live if isinstance(item, dict)}
        return all(contains(by_name.get(item["name"]), item) for item in wanted)
    return len(live) == len(wanted) and all(map(contains, live, wanted))


def status_differs(live: Manifest, wanted: Manifest) -> bool:
    """Return whether `live` lacks a value of `wanted`, apart from times."""
    return any(
        live.get(key) != value
        for key, value in wanted.items()
        if key not in VOLATILE_STATUS_FIELDS
    )
