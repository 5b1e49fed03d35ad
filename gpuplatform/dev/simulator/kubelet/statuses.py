"""Reads the status of a pod, which every client with the permission can write. Pure.

A part that is missing or has the wrong form counts as absent.
"""

from typing import Any, Final, TypeAlias

from gpuplatform.kube.fields import field, items, number, text

Manifest: TypeAlias = dict[str, Any]

_STATES: Final = ("running", "terminated", "waiting")
_NOT_STARTED: Final[Manifest] = {"waiting": {"reason": "ContainerCreating"}}
ENDED: Final = frozenset({"Succeeded", "Failed"})
"""The phases of pods whose containers do not run again."""


def container_statuses(pod: Manifest) -> dict[str, Manifest]:
    """Return the status of each container of `spec.containers` that has one, by name."""
    names = {container["name"] for container in pod["spec"]["containers"]}
    return {
        name: _complete(name, status)
        for status in items(pod, "status", "containerStatuses")
        if (name := text(status, "name")) in names
    }


def is_running(status: Manifest) -> bool:
    """Return whether a container runs, according to its complete status."""
    return "running" in status["state"]


def is_before_start(pod: Manifest) -> bool:
    """Return whether no container of a pod has been started or has failed to start."""
    statuses = container_statuses(pod).values()
    return all(one["state"] == _NOT_STARTED and not one["lastState"] for one in statuses)


def phase_of(pod: Manifest) -> str:
    """Return the phase of a pod, or an empty string."""
    return text(pod, "status", "phase")


def conditions_of(status: Manifest) -> dict[str, Manifest]:
    """Return the conditions in a status that have a type, by type."""
    found = items(status, "conditions")
    return {one["type"]: one for one in found if isinstance(one, dict) and text(one, "type")}


def _complete(name: str, status: Manifest) -> Manifest:
    """Return a container status that has every field that a kubelet sets."""
    state = _state(status.get("state"))
    return {
        **status,
        "name": name,
        "image": text(status, "image"),
        "imageID": text(status, "imageID"),
        "restartCount": number(status, "restartCount"),
        "lastState": _state(status.get("lastState")),
        "state": state or _NOT_STARTED,
        "ready": field(status, "ready") is True and "running" in state,
        "started": field(status, "started") is True,
    }


def _state(value: Any) -> Manifest:
    """Return the only state in `value`, or an empty dict."""
    found = [key for key in _STATES if isinstance(field(value, key), dict)]
    return {found[0]: value[found[0]]} if found else {}
