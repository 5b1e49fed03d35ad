"""The order of waiting pods, and the preemption of pods with a lower priority."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from gpuplatform.kube.kinds import EVENT, POD, PRIORITY_CLASS, Manifest
from tests.cluster.world import World, condition, container, gpus, is_ready, pod

pytestmark = pytest.mark.cluster

NODES: Final = ("gpu-node-1", "gpu-node-2", "gpu-node-3")
GPUS: Final = 8
LOW, MIDDLE, HIGH = 100, 1000, 10_000
NEVER: Final = "Never"
GRACE_SECONDS: Final = 6
"""Longer than the back-off of the scheduler, so that it tries the waiting pod again."""

Place = Callable[..., Manifest]
"""Creates a pod; see `place`."""


@pytest.fixture
def place(world: World) -> Iterator[Place]:
    """Create pods of classes with a priority, which are deleted at the end."""
    classes: set[str] = set()

    def class_of(priority: int, policy: str) -> str:
        name = f"{world.namespace}-{priority}-{policy.lower()}"
        if name not in classes:
            body = {
                "apiVersion": PRIORITY_CLASS.api_version,
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": priority,
                "preemptionPolicy": policy,
            }
            world.cluster.create(PRIORITY_CLASS, body)
            classes.add(name)
            probe, path = pod("probe", priorityClassName=name), world.path(POD)
            # The admission of a real server learns of the class from a watch.
            world.until(lambda: world.http("POST", f"{path}?dryRun=All", probe).status == 201)
        return name

    def create(
        name: str,
        count: int,
        priority: int,
        *,
        node: str = "",
        policy: str = "PreemptLowerPriority",
        is_slow: bool = False,
    ) -> Manifest:
        """Create a pod; `is_slow` makes it use its whole grace period."""
        signal = {"name": "SIMULATOR_SIGTERM", "value": "ignore" if is_slow else ""}
        spec: dict[str, Any] = {
            "priorityClassName": class_of(priority, policy),
            "terminationGracePeriodSeconds": GRACE_SECONDS if is_slow else 1,
        }
        if node:
            spec["nodeSelector"] = {"kubernetes.io/hostname": node}
        entry = container(resources=gpus(count), env=[signal])
        return world.create(POD, pod(name, entry, **spec))

    yield create
    for name in classes:
        world.cluster.delete(PRIORITY_CLASS, name)


def uids(world: World) -> dict[str, str]:
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.list(POD)}


def node_of(world: World, name: str) -> str:
    return str(world.get(POD, name)["spec"].get("nodeName") or "")


def nominated(world: World, name: str) -> str:
    return str((world.get(POD, name).get("status") or {}).get("nominatedNodeName") or "")


def all_ready(world: World, *names: str) -> None:
    world.until(lambda: all(is_ready(world.get(POD, name)) for name in names))


def all_wait(world: World, *names: str) -> None:
    def wait() -> bool:
        found = [condition(world.get(POD, name), "PodScheduled") for name in names]
        return all(one.get("reason") == "Unschedulable" for one in found)

    world.until(wait)


def full(world: World, place: Place, priority: int, **spec: Any) -> None:
    """Fill each node with one pod, named after the node."""
    for node in NODES:
        place(node, GPUS, priority, node=node, **spec)
    all_ready(world, *NODES)


def is_terminating(world: World, name: str) -> bool:
    found = world.find(POD, name)
    return found is not None and "deletionTimestamp" in found["metadata"]


# The order of the queue


def test_pods_with_higher_priority_are_bound_first(world: World, place: Place) -> None:
    full(world, place, LOW, policy=NEVER)
    place("low", GPUS, LOW, policy=NEVER)
    place("high", GPUS, HIGH, policy=NEVER)
    all_wait(world, "low", "high")
    assert [world.get(POD, name)["spec"]["priority"] for name in ("low", "high")] == [LOW, HIGH]

    world.delete(POD, NODES[0])

    all_ready(world, "high")
    assert not node_of(world, "low")


def test_pods_with_equal_priority_are_bound_by_age(world: World, place: Place) -> None:
    full(world, place, LOW)
    for name in ("z-first", "a-second"):
        place(name, GPUS, LOW)
        all_wait(world, name)

    world.delete(POD, NODES[0])

    all_ready(world, "z-first")
    assert not node_of(world, "a-second")


# Preemption


def test_a_pod_preempts_one_with_lower_priority(world: World, place: Place) -> None:
    full(world, place, LOW, is_slow=True)
    before = uids(world)

    high = place("high", GPUS, HIGH)

    node = world.until(lambda: nominated(world, "high"))
    world.until(lambda: is_terminating(world, node))
    target = condition(world.get(POD, node), "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "PreemptionByScheduler")
    assert not node_of(world, "high")
    all_ready(world, "high")
    found = world.get(POD, "high")
    assert (found["spec"]["nodeName"], nominated(world, "high")) == (node, "")
    assert uids(world) == {
        **{name: uid for name, uid in before.items() if name != node},
        "high": high["metadata"]["uid"],
    }
    [event] = world.until(
        lambda: [one for one in world.list(EVENT) if one["reason"] == "Preempted"]
    )
    assert (event["involvedObject"]["name"], event["type"]) == (node, "Normal")
    assert event["message"] == f"Preempted by pod {high['metadata']['uid']} on node {node}"


def test_a_pod_whose_class_never_preempts_waits(world: World, place: Place) -> None:
    full(world, place, LOW)

    place("high", GPUS, HIGH, policy=NEVER)

    all_wait(world, "high")
    assert not nominated(world, "high")
    assert not any(is_terminating(world, node) for node in NODES)


def test_a_pod_does_not_preempt_pods_of_its_priority(world: World, place: Place) -> None:
    full(world, place, HIGH)

    place("high", GPUS, HIGH)

    all_wait(world, "high")
    assert not nominated(world, "high")
    assert not any(is_terminating(world, node) for node in NODES)


def test_the_node_with_the_lowest_victims_is_chosen(world: World, place: Place) -> None:
    for node, priority in zip(NODES, (MIDDLE, LOW, MIDDLE), strict=True):
        place(node, GPUS, priority, node=node)
    all_ready(world, *NODES)

    place("high", GPUS, HIGH)

    all_ready(world, "high")
    assert set(uids(world)) == {NODES[0], NODES[2], "high"}
    assert node_of(world, "high") == NODES[1]


def test_only_as_many_pods_as_needed_are_preempted(world: World, place: Place) -> None:
    node = NODES[1]
    place("middle", 3, MIDDLE, node=node)
    for name in ("low-1", "low-2"):
        place(name, 2, LOW, node=node)
    place("high", 1, HIGH, node=node)
    all_ready(world, "middle", "low-1", "low-2", "high")

    place("more", 2, HIGH, node=node)

    all_ready(world, "more")
    left = set(uids(world))
    assert left > {"middle", "high", "more"}
    assert len(left & {"low-1", "low-2"}) == 1


def test_released_gpus_are_kept_for_the_nominated_pod(world: World, place: Place) -> None:
    node = NODES[1]
    place("quick", 4, LOW, node=node)
    place("slow", 4, LOW, node=node, is_slow=True)
    all_ready(world, "quick", "slow")
    place("low", 4, LOW, node=node)
    all_wait(world, "low")

    place("high", GPUS, HIGH, node=node)

    world.gone(POD, "quick")
    assert is_terminating(world, "slow")
    all_ready(world, "high")
    assert not node_of(world, "low")


def test_a_higher_pod_takes_the_place_of_a_nominated_one(world: World, place: Place) -> None:
    node = NODES[1]
    place("low", GPUS, LOW, node=node, is_slow=True)
    all_ready(world, "low")
    place("middle", GPUS, MIDDLE, node=node)
    world.until(lambda: nominated(world, "middle"))

    place("high", GPUS, HIGH, node=node)

    all_ready(world, "high")
    world.until(lambda: not nominated(world, "middle"))
    assert not node_of(world, "middle")


def test_the_gpus_of_a_nominated_pod_that_is_deleted_are_free(world: World, place: Place) -> None:
    node = NODES[1]
    place("victim", GPUS, LOW, node=node, is_slow=True)
    all_ready(world, "victim")
    place("high", GPUS, HIGH, node=node)
    world.until(lambda: is_terminating(world, "victim"))
    place("low", GPUS, LOW, node=node)
    all_wait(world, "low")

    world.delete(POD, "high")

    all_ready(world, "low")
