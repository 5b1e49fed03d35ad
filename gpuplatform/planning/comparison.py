"""Comparisons before a write, so that unchanged objects are not written. Pure."""

from typing import Any

from gpuplatform.kube.kinds import Manifest

VOLATILE_STATUS_FIELDS = frozenset({"lastSyncTime"})


def contains(live: Any, wanted: Any) -> bool:
    """Return whether `live` contains all values of `wanted`.

    Objects in `live` can have additional keys. Lists of objects with a `name` are compared by
    name, and can have additional elements in `live`. Other lists must have the same length.
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
    """Return whether a field of `live` differs from `wanted`, except for `lastSyncTime`."""
    return any(
        live.get(key) != value
        for key, value in wanted.items()
        if key not in VOLATILE_STATUS_FIELDS
    )
