"""Statuses that a real API server refuses, with the fields of the error."""

from typing import Any

import pytest

from gpuplatform.kube.kinds import NODE, POD
from tests.cluster.world import MERGE, World, container, pod

pytestmark = pytest.mark.cluster

ADDRESS = {"type": "InternalIP", "address": "10.9.9.9"}


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        ({"conditions": [{}]}, ["status.conditions[0].Type"]),
        ({"conditions": [{"type": "a b"}]}, ["status.conditions[0].Type"]),
        ({"conditions": [{"type": "Ready"}, {"type": "example.com/a"}]}, []),
        ({"containerStatuses": [None]}, []),
        ({"containerStatuses": [{"name": "other"}]}, []),
    ],
    ids=["no type", "odd type", "types", "null", "unknown container"],
)
def test_a_status_of_a_pod_is_checked(
    world: World, status: dict[str, Any], fields: list[str]
) -> None:
    world.create(POD, pod("one", container(resources={"limits": {"nvidia.com/gpu": "9"}})))

    reply = world.http("PATCH", world.path(POD, "one", "status"), {"status": status}, MERGE)

    assert reply.status == (422 if fields else 200)
    assert not fields or set(reply.fields) == set(fields)


@pytest.mark.parametrize(
    ("policy", "code", "is_refused"),
    [("Never", 1, True), ("OnFailure", 0, True), ("OnFailure", 1, False), ("Always", 0, False)],
)
def test_a_container_that_has_ended_for_good_does_not_run_again(
    world: World, policy: str, code: int, is_refused: bool
) -> None:
    world.create(POD, pod("one", nodeName="no-such-node", restartPolicy=policy))
    path = world.path(POD, "one", "status")
    ended = {"name": "main", "state": {"terminated": {"exitCode": code}}}
    running = {"name": "main", "state": {"running": {}}}

    first = world.http("PATCH", path, {"status": {"containerStatuses": [ended]}}, MERGE)
    second = world.http("PATCH", path, {"status": {"containerStatuses": [running]}}, MERGE)

    assert first.status == 200
    assert second.status == (422 if is_refused else 200)
    assert not is_refused or second.fields == ["status.containerStatuses[0].state"]


@pytest.mark.parametrize(
    ("status", "field"),
    [
        ({"allocatable": {"cpu": "-1"}}, "status.allocatable.cpu"),
        ({"capacity": {"nvidia.com/gpu": "-1"}}, "status.capacity.nvidia.com/gpu"),
        ({"addresses": [ADDRESS, ADDRESS]}, "status.addresses[1]"),
    ],
    ids=["allocatable", "capacity", "addresses"],
)
def test_a_status_of_a_node_is_checked(world: World, status: dict[str, Any], field: str) -> None:
    path = world.path(NODE, "gpu-node-1", "status") + "?dryRun=All"

    reply = world.http("PATCH", path, {"status": status}, MERGE)

    assert (reply.status, reply.fields) == (422, [field])
