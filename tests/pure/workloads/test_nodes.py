"""Whether a node would accept a pod: the state of the node, taints, labels and devices."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.causes import NODE_CAUSES, StartupCause
from gpuplatform.workloads.nodes import (
    NodeRejection,
    NodeState,
    PodRequirements,
    Taint,
    node_rejection,
)
from gpuplatform.workloads.placement import PRODUCT_LABEL
from gpuplatform.workloads.resources import GPU_RESOURCE
from tests.factories.nodes import H100, L40S, SLICE, node_manifest

ONE_GPU = PodRequirements(resources={GPU_RESOURCE: 1})
PRESENT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def cause(node: Manifest, pod: PodRequirements = ONE_GPU, room: int = 1) -> StartupCause | None:
    found = node_rejection(NodeState.of(node), pod, {GPU_RESOURCE: room})
    return found.cause if found else None


def test_a_ready_node_with_room_takes_a_pod() -> None:
    assert node_rejection(NodeState.of(node_manifest()), ONE_GPU, {GPU_RESOURCE: 1}) is None


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"is_ready": False}, StartupCause.NODE_NOT_READY),
        ({"is_cordoned": True}, StartupCause.NODE_CORDONED),
        ({"pressures": ["DiskPressure"]}, StartupCause.NODE_UNDER_PRESSURE),
        ({"pressures": ["NetworkUnavailable"]}, StartupCause.NODE_UNDER_PRESSURE),
        ({"taints": [PRESENT]}, StartupCause.NODE_TAINTED),
        ({"taints": [{**PRESENT, "effect": "NoExecute"}]}, StartupCause.NODE_TAINTED),
        ({"taints": [{**PRESENT, "effect": "PreferNoSchedule"}]}, None),
        (
            {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
            StartupCause.NODE_NOT_READY,
        ),
        (
            {"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]},
            StartupCause.NODE_CORDONED,
        ),
    ],
)
def test_the_state_of_the_node_decides(
    state: dict[str, Any], expected: StartupCause | None
) -> None:
    assert cause(node_manifest(**state)) == expected


@pytest.mark.parametrize(
    ("toleration", "is_taken"),
    [
        ({"key": "nvidia.com/gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "nvidia.com/gpu", "value": "present"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Equal", "value": "present"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "nvidia.com/gpu", "value": "absent"}, False),
        ({"key": "nvidia.com/gpu"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"value": "present"}, False),
        ({}, False),
    ],
)
def test_a_taint_must_be_tolerated(toleration: dict[str, str], *, is_taken: bool) -> None:
    pod = PodRequirements(tolerations=[toleration], resources={GPU_RESOURCE: 1})

    assert cause(node_manifest(taints=[PRESENT]), pod) == (
        None if is_taken else StartupCause.NODE_TAINTED
    )


def test_a_pod_that_tolerates_a_cordon_is_taken() -> None:
    pod = PodRequirements(tolerations=[{"operator": "Exists"}])

    assert cause(node_manifest(is_cordoned=True), pod) is None


@pytest.mark.parametrize("labels", [{PRODUCT_LABEL: L40S}, {"zone": "a"}])
def test_the_labels_of_the_placement_must_match(labels: dict[str, str]) -> None:
    pod = PodRequirements(node_selector=labels)

    assert cause(node_manifest(product=H100), pod) == StartupCause.NODE_LABELS_DIFFER
    assert cause(node_manifest(product=L40S, labels={"zone": "a"}), pod) is None


@pytest.mark.parametrize("room", [0, -3])
def test_a_node_without_room_does_not_take_a_pod(room: int) -> None:
    assert cause(node_manifest(), room=room) == StartupCause.GPUS_MISSING


def test_each_resource_needs_room() -> None:
    pod = PodRequirements(resources={GPU_RESOURCE: 1, SLICE: 2})
    state = NodeState.of(node_manifest(slices="2"))

    assert node_rejection(state, pod, {GPU_RESOURCE: 1, SLICE: 2}) is None
    rejection = node_rejection(state, pod, {GPU_RESOURCE: 1, SLICE: 1})
    assert rejection is not None
    assert rejection.cause == StartupCause.GPUS_MISSING


def test_a_deleted_node_takes_nothing() -> None:
    state = NodeState("n1", is_present=False)

    found = node_rejection(state, PodRequirements(), {})

    assert found == NodeRejection(StartupCause.NODE_MISSING, "node 'n1' no longer exists")


def test_every_cause_is_explained() -> None:
    assert NODE_CAUSES.keys() == {
        one for one in StartupCause if one.name.startswith("NODE_") or one.name == "GPUS_MISSING"
    } - {StartupCause.REJECTED_BY_NODE, StartupCause.NODE_UNREACHABLE}


def test_the_state_of_a_node_is_read() -> None:
    node = node_manifest(
        "n1", 7, capacity=8, is_cordoned=True, taints=[PRESENT], pressures=["PIDPressure"]
    )

    state = NodeState.of(node)

    assert (state.name, state.product) == ("n1", H100)
    assert (state.gpus, state.total_gpus) == ({GPU_RESOURCE: 7}, {GPU_RESOURCE: 8})
    assert (state.is_ready, state.is_schedulable, state.accepts_pods) == (True, False, False)
    assert state.taints == (Taint("nvidia.com/gpu", "NoSchedule", "present"),)
    assert str(state.taints[0]) == "nvidia.com/gpu=present:NoSchedule"
    assert state.pressures == ("PIDPressure",)
    assert (state.allocatable["cpu"], state.allocatable["memory"]) == ("64", "512Gi")


@pytest.mark.parametrize(
    ("spec", "resources"),
    [
        ({"gpu": 2}, {GPU_RESOURCE: 2}),
        (
            {"gpu": 1, "resourceName": SLICE, "resources": {"rdma/hca": "1"}},
            {SLICE: 1, "rdma/hca": 1},
        ),
        ({"gpu": "many", "resources": 3, "placement": []}, {}),
        (None, {}),
    ],
)
def test_the_requirements_of_a_spec_are_read(spec: Any, resources: dict[str, int]) -> None:
    assert PodRequirements.of_spec(spec).resources == resources


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "metadata",
                    "name",
                    "labels",
                    "spec",
                    "status",
                    "taints",
                    "key",
                    "conditions",
                    "type",
                    "allocatable",
                    "capacity",
                    GPU_RESOURCE,
                    "tolerations",
                    "placement",
                    "nodeSelector",
                    "gpu",
                    "resources",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON, JSON)
def test_any_objects_are_read(node: Any, spec: Any) -> None:
    node_rejection(NodeState.of(node), PodRequirements.of_spec(spec), {})
