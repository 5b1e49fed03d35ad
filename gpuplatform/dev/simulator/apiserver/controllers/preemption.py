"""Functions that select the victims of a preemption, as kube-scheduler does. Pure.

PodDisruptionBudgets are not simulated.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpuplatform.dev.simulator.apiserver.controllers.placement import Node, priority_of
from gpuplatform.dev.simulator.apiserver.objects import Manifest, condition
from gpuplatform.dev.simulator.apiserver.store import Key

DISRUPTION = "DisruptionTarget"
PREEMPTED = "PreemptionByScheduler"
"""The type and the reason of the condition of a victim."""
_NOT_STARTED = "~"
"""Sorts after all times."""
_LEAST_PRIORITY = -(2**31)


@dataclass(frozen=True, slots=True)
class Resident:
    """A pod that is bound to a node and has not ended."""

    key: Key
    priority: int
    started: str
    """The start time, which sorts after all times if the pod has not started."""
    is_preempted: bool
    """Whether the pod is terminating because of a preemption."""
    requests: Counter[str]

    @classmethod
    def of(cls, key: Key, pod: Manifest, requests: Counter[str]) -> "Resident":
        """Create the state of a bound pod with its effective requests."""
        is_terminating = "deletionTimestamp" in pod["metadata"]
        target = condition(pod, DISRUPTION)
        return cls(
            key=key,
            priority=priority_of(pod),
            started=pod.get("status", {}).get("startTime") or _NOT_STARTED,
            is_preempted=is_terminating
            and (target.get("status"), target.get("reason")) == ("True", PREEMPTED),
            requests=requests,
        )


def may_preempt(
    pod: Manifest, requests: Counter[str], nominated: Node | None, residents: Iterable[Resident]
) -> bool:
    """Return whether a pod that fits no node can preempt others.

    `nominated` is the node for which the pod is nominated, and `residents` are its pods. The pod
    waits while pods that were preempted on this node terminate.
    """
    if pod["spec"].get("preemptionPolicy") == "Never":
        return False
    if nominated is None or replace(nominated, taken=Counter()).obstacles(pod, requests):
        return True
    priority = priority_of(pod)
    return not any(one.is_preempted and one.priority < priority for one in residents)


def victims_on(
    node: Node, residents: Iterable[Resident], pod: Manifest, requests: Counter[str]
) -> list[Resident]:
    """Return the pods that must end so that `pod` fits the node, with the most important first.

    All pods with a lower priority are removed, and then restored while `pod` still fits, with the
    most important first. The list is empty if `pod` does not fit without them.
    """
    priority = priority_of(pod)
    lower = sorted((one for one in residents if one.priority < priority), key=_importance)
    left = replace(node, taken=node.taken.copy())
    for resident in lower:
        left.taken.subtract(resident.requests)
    if not lower or left.obstacles(pod, requests):
        return []
    victims: list[Resident] = []
    for resident in lower:
        left.taken.update(resident.requests)
        if left.obstacles(pod, requests):
            left.taken.subtract(resident.requests)
            victims.append(resident)
    return victims


def best_node(victims: Mapping[str, Sequence[Resident]]) -> str:
    """Return the node whose victims are the least important. Each node has victims.

    The criteria are the highest priority, the sum of the priorities, the number of victims, and
    the start time of the most important victims, of which the latest is preferred.
    """
    least = min(map(_cost, victims.values()))
    cheapest = [name for name, found in victims.items() if _cost(found) == least]
    return max(cheapest, key=lambda name: victims[name][0].started)


def _importance(resident: Resident) -> tuple[int, str]:
    return -resident.priority, resident.started


def _cost(victims: Sequence[Resident]) -> tuple[int, int, int]:
    total = sum(one.priority - _LEAST_PRIORITY for one in victims)
    return victims[0].priority, total, len(victims)
