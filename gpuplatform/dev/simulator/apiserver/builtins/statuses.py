"""Validation of the status of pods and nodes. Kubernetes checks few of its fields."""

from collections.abc import Iterator

from gpuplatform.dev.simulator.apiserver.builtins import formats
from gpuplatform.dev.simulator.apiserver.errors import (
    FieldError,
    duplicate,
    forbidden_value,
    invalid_value,
)
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.formats.quantity import Quantity

_CONDITIONS = {"PodScheduled", "Ready", "Initialized"}


def pod_status_errors(pod: Manifest, old: Manifest) -> Iterator[FieldError]:
    """Yield the errors of an update of the status of a pod from `old`."""
    status, before = pod.get("status", {}), old.get("status", {})
    if status == before:
        return
    for index, condition in enumerate(status.get("conditions", ())):
        name = condition.get("type", "")
        if name not in _CONDITIONS:
            here = f"status.conditions[{index}].Type"
            yield from (invalid_value(here, name, problem) for problem in formats.label_key(name))
    states = {
        one.get("name", ""): one.get("state", {})
        for one in reversed(status.get("containerStatuses", ()))
    }
    for index, one in enumerate(before.get("containerStatuses", ())):
        ended = one.get("state", {}).get("terminated")
        if ended is None or "terminated" in states.get(one.get("name", ""), {"terminated": {}}):
            continue
        if not _may_restart(pod["spec"].get("restartPolicy"), ended.get("exitCode", 0)):
            detail = "may not be transitioned to non-terminated state"
            yield forbidden_value(f"status.containerStatuses[{index}].state", detail)


def _may_restart(policy: str | None, code: int) -> bool:
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def node_status_errors(node: Manifest) -> Iterator[FieldError]:
    """Yield the errors of the status of a node."""
    status = node.get("status", {})
    for kind in ("capacity", "allocatable"):
        for name, quantity in status.get(kind, {}).items():
            if Quantity.parse(quantity) < Quantity(0):
                here = f"status.{kind}.{name}"
                yield invalid_value(here, quantity, "must be greater than or equal to 0")
    seen: list[Manifest] = []
    for index, address in enumerate(status.get("addresses", ())):
        if address in seen:
            yield duplicate(f"status.addresses[{index}]", address)
        seen.append(address)
