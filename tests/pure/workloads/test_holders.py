"""Which pods hold the GPUs of which node, and whose they are."""

from typing import Any

import pytest

from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.holders import NodeRecord, Owner, holder_of, node_records
from gpuplatform.workloads.nodes import NodeState
from gpuplatform.workloads.resources import GPU_RESOURCE
from tests.factories.nodes import SLICE, gpu_pod, node_manifest, records


@pytest.mark.parametrize(
    ("labels", "owner", "uid", "spec_name"),
    [
        ({"unit": "u1"}, Owner.UNIT, "u1", "g1.1"),
        ({"pool": "p1"}, Owner.POOL, "p1", "g1.1"),
        ({}, Owner.OTHER, "", ""),
    ],
)
def test_the_labels_name_the_owner(
    labels: dict[str, str], owner: Owner, uid: str, spec_name: str
) -> None:
    placed = holder_of(gpu_pod(**labels))

    assert placed is not None
    holder = placed.holder
    assert (placed.node, holder.owner, holder.owner_uid) == ("n1", owner, uid)
    assert (holder.spec_name, holder.gpus) == (spec_name, {GPU_RESOURCE: 1})


@pytest.mark.parametrize(
    "pod",
    [
        gpu_pod(node=""),
        gpu_pod(gpus=0),
        gpu_pod(phase="Succeeded"),
        gpu_pod(phase="Failed"),
        gpu_pod(gpus="lots"),
        gpu_pod(resource="memory"),
        {},
        {"spec": 3},
    ],
    ids=[
        "no node",
        "no GPU",
        "succeeded",
        "failed",
        "no quantity",
        "memory",
        "empty",
        "malformed",
    ],
)
def test_a_pod_without_a_node_or_gpus_holds_nothing(pod: Manifest) -> None:
    assert holder_of(pod) is None


def test_a_terminating_pod_holds_its_gpus() -> None:
    pod = gpu_pod()
    pod["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"

    assert holder_of(pod) is not None


@pytest.mark.parametrize(
    ("init", "expected"),
    [
        ([{"resources": {"limits": {GPU_RESOURCE: "4"}}}], 4),
        ([{"resources": {"limits": {GPU_RESOURCE: "1"}}}], 2),
        ([{"restartPolicy": "Always", "resources": {"limits": {GPU_RESOURCE: "1"}}}], 3),
    ],
    ids=["larger", "smaller", "sidecar"],
)
def test_init_containers_count_as_for_the_scheduler(init: list[Any], expected: int) -> None:
    pod = gpu_pod(gpus=2)
    pod["spec"]["initContainers"] = init

    placed = holder_of(pod)

    assert placed is not None
    assert placed.holder.gpus == {GPU_RESOURCE: expected}


def test_each_pod_counts_once_on_its_node() -> None:
    pods = [gpu_pod("a"), gpu_pod("a"), gpu_pod("b", gpus=2), gpu_pod("c", "n2", resource=SLICE)]

    found = records([node_manifest(), node_manifest("n2", slices="3")], pods)

    assert [one.name for one in found["n1"].holders] == ["a", "b"]
    assert found["n1"].room == {GPU_RESOURCE: 5}
    assert found["n2"].room == {GPU_RESOURCE: 8, SLICE: 2}


def test_a_deleted_node_with_pods_has_a_record() -> None:
    found = records([], [gpu_pod()])

    state = found["n1"].state
    assert (state.is_present, state.gpus, found["n1"].room) == (False, {}, {GPU_RESOURCE: -1})


def test_a_node_without_pods_has_a_record() -> None:
    assert node_records([NodeState("n1")], ()) == {"n1": NodeRecord(NodeState("n1"))}
