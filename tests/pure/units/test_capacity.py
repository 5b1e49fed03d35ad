"""Each GPU of a node is counted once: free, or held by a unit, stock, a pool or others."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.nodes import PodRequirements
from gpuplatform.workloads.placement import PRODUCT_LABEL
from gpuplatform.workloads.resources import GPU_RESOURCE
from tests.factories.nodes import H100, L40S, SLICE, gpu_pod, node_manifest, record, records
from units.core.capacity import (
    ACTIVE,
    HELD_BY_POOLS,
    OTHERS,
    GpuUse,
    held_by_spec,
    node_use,
    units_that_fit,
    use_by_product,
)

USES = {"unit": ACTIVE, "stock": "ready", "claimed": "claimed", "pool": HELD_BY_POOLS}
ONE_GPU = PodRequirements(resources={GPU_RESOURCE: 1})


def is_whole(use: GpuUse) -> bool:
    return use.free + sum(use.held.values()) == use.allocatable and use.free >= 0


def test_each_pod_has_one_use() -> None:
    pods = [
        gpu_pod("a", unit="unit"),
        gpu_pod("b", unit="stock", gpus=2),
        gpu_pod("c", pool="pool"),
        gpu_pod("d"),
        gpu_pod("e", unit="unknown"),
    ]

    use = node_use(record(node_manifest(), *pods), USES)[GPU_RESOURCE]

    assert use.held == {ACTIVE: 1, "ready": 2, HELD_BY_POOLS: 1, OTHERS: 2}
    assert (use.free, use.allocatable, use.total, use.nodes) == (2, 8, 8, 1)
    assert is_whole(use)


def test_gpus_that_nothing_backs_are_an_excess_of_stock_first() -> None:
    pods = [gpu_pod("a", unit="unit", gpus=4), gpu_pod("b", unit="stock", gpus=4)]

    use = node_use(record(node_manifest(gpus=6, capacity=8), *pods), USES)[GPU_RESOURCE]

    assert (use.held, use.excess) == ({ACTIVE: 4, "ready": 2}, {"ready": 2})
    assert (use.free, use.allocatable, use.total) == (0, 6, 8)


def test_the_pods_of_a_deleted_node_hold_an_excess() -> None:
    use = node_use(records([], [gpu_pod("a", unit="unit")])["n1"], USES)[GPU_RESOURCE]

    assert (use.allocatable, use.free, use.held, use.excess) == (0, 0, {}, {ACTIVE: 1})
    assert use.nodes == 0


def test_the_product_is_the_label_of_the_node_of_the_pod() -> None:
    nodes = [
        node_manifest(),
        node_manifest("n2", 4, product=L40S),
        node_manifest("n3", product=""),
    ]
    pods = [gpu_pod("a", "n1", unit="unit"), gpu_pod("b", "n2", unit="stock")]

    found = use_by_product(records(nodes, pods).values(), USES)

    assert {key[0]: (use.free, dict(use.held)) for key, use in found.items()} == {
        H100: (7, {ACTIVE: 1}),
        L40S: (3, {"ready": 1}),
        "": (8, {}),
    }


def test_free_gpus_of_closed_nodes_and_fragments_are_known() -> None:
    nodes = [node_manifest(), node_manifest("n2"), node_manifest("n3", is_cordoned=True)]
    pods = [gpu_pod("a", "n1", 6), gpu_pod("b", "n2", 5)]

    [use] = use_by_product(records(nodes, pods).values(), USES).values()

    assert (use.free, use.unschedulable, use.largest_free) == (13, 8, 3)


def test_slices_and_whole_gpus_are_counted_separately() -> None:
    pods = [gpu_pod("a", unit="unit"), gpu_pod("b", unit="stock", gpus=3, resource=SLICE)]

    found = node_use(record(node_manifest(slices="7"), *pods), USES)

    assert found[GPU_RESOURCE].held == {ACTIVE: 1}
    assert (found[SLICE].held, found[SLICE].free) == ({"ready": 3}, 4)


def test_what_a_spec_holds_is_counted_by_the_label_of_its_pods() -> None:
    pods = [gpu_pod("a", unit="unit"), gpu_pod("b", pool="pool", spec_name="g2"), gpu_pod("c")]

    found = held_by_spec([record(node_manifest(), *pods)], USES)

    assert found == {
        "g1.1": {GPU_RESOURCE: {ACTIVE: 1}},
        "g2": {GPU_RESOURCE: {HELD_BY_POOLS: 1}},
    }


@pytest.mark.parametrize(
    ("pod", "number"),
    [
        (ONE_GPU, 5),
        (PodRequirements(resources={GPU_RESOURCE: 2}), 2),
        (PodRequirements({PRODUCT_LABEL: L40S}, resources={GPU_RESOURCE: 1}), 2),
        (PodRequirements(), 0),
    ],
)
def test_the_units_that_fit_are_counted_by_node(pod: PodRequirements, number: int) -> None:
    nodes = [
        node_manifest("n1"),
        node_manifest("n2", 4, product=L40S),
        node_manifest("n3", is_cordoned=True),
    ]
    found = records(nodes, [gpu_pod("a", "n1", 5), gpu_pod("b", "n2", 2)])

    assert units_that_fit(found.values(), pod) == number


POD = st.builds(
    gpu_pod,
    st.text("ab", min_size=1, max_size=4),
    st.sampled_from(["", "n1", "n2", "gone"]),
    st.integers(0, 5),
    unit=st.sampled_from(["", "unit", "stock", "claimed", "deleted", "by hand"]),
    pool=st.sampled_from(["", "pool", "another pool"]),
    resource=st.sampled_from([GPU_RESOURCE, SLICE]),
    phase=st.sampled_from(["Pending", "Running", "Failed"]),
)
NODE = st.builds(
    node_manifest,
    st.sampled_from(["n1", "n2", "n3"]),
    st.integers(0, 9),
    product=st.sampled_from(["", H100, L40S]),
    capacity=st.none() | st.integers(0, 9),
    is_ready=st.booleans(),
    is_cordoned=st.booleans(),
)


@given(st.lists(NODE, max_size=4), st.lists(POD, max_size=12))
def test_every_gpu_is_counted_exactly_once(nodes: list[Manifest], pods: list[Manifest]) -> None:
    found = records(nodes, pods)
    by_product = use_by_product(found.values(), USES)

    uses: list[Any] = [*by_product.values()]
    uses += [use for one in found.values() for use in node_use(one, USES).values()]
    assert all(map(is_whole, uses))
    for resource in (GPU_RESOURCE, SLICE):
        of_resource = [use for (_, name), use in by_product.items() if name == resource]
        offered = sum(one.state.gpus.get(resource, 0) for one in found.values())
        held = sum(one.held[resource] for one in found.values())
        assert sum(use.allocatable for use in of_resource) == offered
        assert held == sum(
            sum(use.held.values()) + sum(use.excess.values()) for use in of_resource
        )
