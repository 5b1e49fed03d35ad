"""The selection of the victims of a preemption."""

from collections import Counter
from typing import Any

import pytest

from gpuplatform.dev.simulator.apiserver.controllers.placement import Node, requests_of
from gpuplatform.dev.simulator.apiserver.controllers.preemption import (
    Resident,
    best_node,
    may_preempt,
    victims_on,
)
from gpuplatform.dev.simulator.apiserver.objects import Manifest

GPU = "nvidia.com/gpu"
FIRST, SECOND, THIRD = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z", "2026-01-01T00:00:03Z"


def pod(gpus: int = 1, *, priority: int = 10, name: str = "one", **more: Any) -> Manifest:
    container = {"name": "main", "resources": {"requests": {GPU: str(gpus)}}}
    spec = {"containers": [container], "priority": priority, **more.pop("spec", {})}
    return {"metadata": {"name": name}, "spec": spec, **more}


def resident(name: str, gpus: int = 1, priority: int = 0, started: str = FIRST) -> Resident:
    body = pod(gpus, priority=priority, status={"startTime": started})
    return Resident.of(("", "pods", "default", name), body, requests_of(body))


def terminating(name: str, reason: str, priority: int = 0) -> Resident:
    body = pod(priority=priority)
    body["metadata"]["deletionTimestamp"] = FIRST
    target = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    body["status"] = {"conditions": [target]}
    return Resident.of(("", "pods", "default", name), body, requests_of(body))


def node(gpus: int, *residents: Resident, **spec: Any) -> Node:
    made = Node.of(
        {
            "metadata": {"name": "n"},
            "spec": spec,
            "status": {"allocatable": {GPU: str(gpus), "pods": "110"}},
        }
    )
    for one in residents:
        made.taken.update(one.requests)
    return made


def victims(gpus: int, body: Manifest, *residents: Resident, **spec: Any) -> list[str]:
    found = victims_on(node(gpus, *residents, **spec), residents, body, requests_of(body))
    return [one.key[3] for one in found]


def test_the_victims_have_the_lowest_priority() -> None:
    middle = resident("middle", 2, priority=5)

    assert victims(4, pod(2), middle, resident("low", 2)) == ["low"]


def test_the_victims_have_started_last() -> None:
    pods = [resident(name, 1, started=name) for name in (SECOND, THIRD, FIRST)]

    assert victims(3, pod(1), *pods) == [THIRD]


def test_a_pod_that_has_not_started_is_the_first_victim() -> None:
    assert victims(2, pod(1), resident("new", started=""), resident("old")) == ["new"]


def test_a_pod_that_is_too_small_is_no_victim() -> None:
    assert victims(5, pod(4), resident("small", 1), resident("large", 4, started=THIRD)) == [
        "large"
    ]


@pytest.mark.parametrize(
    ("gpus", "more"),
    [
        (9, {}),
        (1, {"unschedulable": True}),
        (1, {"taints": [{"key": "a", "effect": "NoSchedule"}]}),
    ],
    ids=["too large", "cordoned", "tainted"],
)
def test_a_node_that_never_fits_has_no_victims(gpus: int, more: dict[str, Any]) -> None:
    assert victims(8, pod(gpus), resident("low", 8), **more) == []


def test_pods_with_equal_priority_are_no_victims() -> None:
    assert victims(1, pod(1, priority=10), resident("equal", 1, priority=10)) == []


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([resident("x", priority=5)], [resident("x"), resident("y")]),
        ([resident("x", priority=5), resident("y", priority=4)], [resident("x", priority=5)]),
        ([resident("x", priority=-3), resident("y", priority=-3)], [resident("x", priority=-3)]),
        ([resident("x", started=FIRST)], [resident("x", started=SECOND)]),
        ([resident("x", started=THIRD)], [resident("x", started="")]),
    ],
    ids=["priority", "sum", "sum of negative ones", "start", "not started"],
)
def test_the_second_node_has_the_less_important_victims(
    a: list[Resident], b: list[Resident]
) -> None:
    assert best_node({"a": a, "b": b}) == best_node({"b": b, "a": a}) == "b"


def test_a_pod_waits_for_its_victims() -> None:
    victim = terminating("victim", "PreemptionByScheduler")
    body, full = pod(1), node(1, victim)
    requests = requests_of(body)

    assert not may_preempt(body, requests, full, [victim])
    assert may_preempt(body, requests, None, [])
    assert may_preempt(body, requests, full, [terminating("other", "EvictionByEvictionAPI")])
    higher = terminating("higher", "PreemptionByScheduler", priority=10)
    assert may_preempt(body, requests, full, [higher])
    assert may_preempt(body, requests, node(1, victim, unschedulable=True), [victim])


def test_a_pod_whose_policy_is_never_does_not_preempt() -> None:
    body = pod(1, spec={"preemptionPolicy": "Never"})

    assert not may_preempt(body, Counter(), None, [])
