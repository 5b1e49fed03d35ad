"""Pods on nodes: scheduling, failures, termination, messages."""

from typing import Any

import pytest

from gpuplatform.kube.kinds import (
    EVENT,
    NODE,
    POD,
    SECRET,
    Manifest,
)
from tests.cluster.control import Control
from tests.cluster.world import World, condition, container, gpus, is_ready, pod, waiting

pytestmark = pytest.mark.cluster


def ready_pod(world: World, name: str, entry: Manifest | None = None, **spec: Any) -> Manifest:
    world.create(POD, pod(name, entry, **spec))
    return world.until(lambda: found if is_ready(found := world.get(POD, name)) else None)


def unschedulable(world: World, name: str) -> str:
    def message() -> str:
        found = condition(world.get(POD, name), "PodScheduled")
        return found.get("message", "") if found.get("reason") == "Unschedulable" else ""

    return world.until(message)


def waits_for(world: World, name: str, reason: str) -> Manifest:
    return world.until(
        lambda: found if (found := waiting(world.get(POD, name))).get("reason") == reason else None
    )


def test_a_pod_is_bound_started_and_ready(world: World) -> None:
    found = ready_pod(world, "one", container(resources=gpus(1)))

    status = found["status"]
    assert found["spec"]["nodeName"].startswith("gpu-node-")
    assert status["phase"] == "Running"
    assert status["podIP"]
    assert condition(found, "PodScheduled")["status"] == "True"
    assert status["containerStatuses"][0]["restartCount"] == 0


def test_a_pod_with_too_many_gpus_is_unschedulable(world: World) -> None:
    world.create(POD, pod("one", container(resources=gpus(9))))

    message = unschedulable(world, "one")

    assert message.startswith("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")
    assert world.get(POD, "one")["status"]["phase"] == "Pending"


def test_a_pod_that_selects_no_node_is_unschedulable(world: World) -> None:
    world.create(POD, pod("one", nodeSelector={"nvidia.com/gpu.product": "none"}))

    message = unschedulable(world, "one")

    assert message.startswith(
        "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
    )


def test_an_unschedulable_pod_has_an_event(world: World) -> None:
    world.create(POD, pod("one", container(resources=gpus(9))))

    found = world.until(
        lambda: [item for item in world.list(EVENT) if item["reason"] == "FailedScheduling"]
    )

    assert found[0]["involvedObject"]["name"] == "one"
    assert "3 Insufficient nvidia.com/gpu" in found[0]["message"]


def test_an_unschedulable_pod_is_bound_when_resources_are_released(world: World) -> None:
    for number in (1, 2, 3):
        ready_pod(world, f"full-{number}", container(resources=gpus(8)))
    world.create(POD, pod("one", container(resources=gpus(2))))
    unschedulable(world, "one")

    world.cluster.delete(POD, "full-2", namespace=world.namespace)

    world.until(lambda: is_ready(world.get(POD, "one")))


def test_an_unknown_priority_class_is_forbidden(world: World) -> None:
    reply = world.http("POST", world.path(POD), pod("one", priorityClassName="none"))

    assert (reply.status, reply.reason) == (403, "Forbidden")
    assert "no PriorityClass with name none was found" in reply.message


def test_a_failed_image_pull_has_the_message_of_the_kubelet(world: World) -> None:
    world.create(POD, pod("one", container(image="example.invalid/app:1")))

    first = waits_for(world, "one", "ErrImagePull")["message"]
    then = waits_for(world, "one", "ImagePullBackOff")["message"]

    assert first.startswith('failed to pull and unpack image "example.invalid/app:1"')
    assert first.endswith("no such host")
    assert then == f'Back-off pulling image "example.invalid/app:1": ErrImagePull: {first}'
    assert world.get(POD, "one")["status"]["phase"] == "Pending"


def test_a_failed_image_pull_has_events(world: World) -> None:
    world.create(POD, pod("one", container(image="example.invalid/app:1")))

    def reasons() -> bool:
        return {item["reason"] for item in world.list(EVENT)} >= {"Pulling", "Failed", "BackOff"}

    world.until(reasons)


def test_a_failing_container_is_in_a_crash_loop(world: World) -> None:
    world.create(POD, pod("one", container("sh", "-c", "exit 3")))

    message = waits_for(world, "one", "CrashLoopBackOff")["message"]

    found = world.get(POD, "one")
    status = found["status"]["containerStatuses"][0]
    assert message.startswith("back-off 1s restarting failed container=main pod=one_")
    assert status["restartCount"] == 1
    assert status["lastState"]["terminated"]["exitCode"] == 3
    assert status["lastState"]["terminated"]["reason"] == "Error"
    assert condition(found, "Ready")["reason"] == "ContainersNotReady"


def test_a_container_above_its_memory_limit_is_killed(world: World) -> None:
    entry = container(
        env=[{"name": "SIMULATOR_MEMORY", "value": "2Gi"}],
        resources={"limits": {"memory": "1Gi"}},
    )
    world.create(POD, pod("one", entry))

    def last() -> Manifest:
        status = (world.get(POD, "one").get("status") or {}).get("containerStatuses") or [{}]
        return (status[0].get("lastState") or {}).get("terminated") or {}

    found = world.until(last)

    assert (found["reason"], found["exitCode"]) == ("OOMKilled", 137)


def test_a_pod_waits_for_the_secret_of_a_variable(world: World) -> None:
    source = {"secretKeyRef": {"name": "hf", "key": "token"}}
    world.create(POD, pod("one", container(env=[{"name": "TOKEN", "valueFrom": source}])))

    def message() -> str:
        return str(waits_for(world, "one", "CreateContainerConfigError")["message"])

    assert message() == 'secret "hf" not found'
    world.create(SECRET, {"metadata": {"name": "hf"}, "data": {"other": "YQ=="}})
    missing = f"couldn't find key token in Secret {world.namespace}/hf"
    world.until(lambda: message() == missing)
    assert world.get(POD, "one")["status"]["phase"] == "Pending"
    world.until(
        lambda: [item for item in world.list(EVENT) if item["message"] == f"Error: {missing}"]
    )
    world.patch(SECRET, "hf", {"data": {"token": "YQ=="}})

    found = world.until(lambda: item if is_ready(item := world.get(POD, "one")) else None)
    assert found["status"]["containerStatuses"][0]["restartCount"] == 0


def test_a_pod_that_is_not_restarted_ends_succeeded_or_failed(world: World) -> None:
    world.create(POD, pod("good", container("true"), restartPolicy="Never"))
    world.create(POD, pod("bad", container("false"), restartPolicy="Never"))

    world.until(lambda: world.get(POD, "good")["status"]["phase"] == "Succeeded")
    world.until(lambda: world.get(POD, "bad")["status"]["phase"] == "Failed")


def test_a_running_pod_whose_probe_fails_is_not_ready(world: World) -> None:
    entry = container(env=[{"name": "SIMULATOR_READINESS", "value": "fail"}])
    world.create(POD, pod("one", entry))

    found = world.until(
        lambda: item if (item := world.get(POD, "one"))["status"]["phase"] == "Running" else None
    )

    assert condition(found, "Ready")["status"] == "False"
    assert condition(found, "Ready")["message"] == "containers with unready status: [main]"


def test_a_deleted_pod_keeps_its_grace_period(world: World) -> None:
    stubborn = container(env=[{"name": "SIMULATOR_SIGTERM", "value": "ignore"}])
    ready_pod(world, "one", stubborn, terminationGracePeriodSeconds=3)

    world.delete(POD, "one")
    metadata = world.get(POD, "one")["metadata"]

    assert metadata["deletionGracePeriodSeconds"] == 3
    assert metadata["deletionTimestamp"]
    world.gone(POD, "one")


def test_a_pod_deleted_without_a_grace_period_is_deleted_immediately(world: World) -> None:
    ready_pod(world, "one")

    world.http("DELETE", world.path(POD, "one") + "?gracePeriodSeconds=0")

    assert world.find(POD, "one") is None


def test_an_unbound_pod_is_deleted_immediately(world: World) -> None:
    world.create(POD, pod("one", container(resources=gpus(9))))
    unschedulable(world, "one")

    world.delete(POD, "one")

    assert world.find(POD, "one") is None


def test_no_pod_is_bound_to_a_node_that_is_not_ready(world: World, control: Control) -> None:
    control.node("gpu-node-2", notReady=True)
    world.until(lambda: condition(world.get(NODE, "gpu-node-2"), "Ready")["status"] == "False")
    world.until(
        lambda: any(
            taint["key"] == "node.kubernetes.io/not-ready"
            for taint in world.get(NODE, "gpu-node-2")["spec"].get("taints") or []
        )
    )

    selector = {"kubernetes.io/hostname": "gpu-node-2"}
    world.create(POD, pod("one", nodeSelector=selector))

    assert "untolerated taint" in unschedulable(world, "one")


def test_failed_gpus_are_not_assigned(world: World, control: Control) -> None:
    control.node("gpu-node-2", gpus=1)
    world.until(
        lambda: world.get(NODE, "gpu-node-2")["status"]["allocatable"]["nvidia.com/gpu"] == "1"
    )

    selector = {"kubernetes.io/hostname": "gpu-node-2"}
    world.create(POD, pod("one", container(resources=gpus(2)), nodeSelector=selector))

    assert "1 Insufficient nvidia.com/gpu" in unschedulable(world, "one")


def test_an_evicted_pod_is_deleted(world: World) -> None:
    world.create(POD, pod("one"))
    world.until(lambda: is_ready(world.get(POD, "one")))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "one"}}

    reply = world.http("POST", world.path(POD, "one", "eviction"), body)

    assert reply.status == 201
    world.gone(POD, "one")
