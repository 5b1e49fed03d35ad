"""Extended resources of specs, pods and nodes: each is counted separately."""

from typing import Any

import pytest

from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.resources import (
    GPU_RESOURCE,
    amounts,
    held_by,
    offered_by,
    resource_in,
    resources_error,
)

SLICE = "nvidia.com/mig-1g.10gb"


def pod(*limits: object) -> Manifest:
    return {"spec": {"containers": [{"resources": {"limits": one}} for one in limits]}}


def test_the_gpus_are_units_of_their_resource() -> None:
    assert amounts(2, SLICE, {"rdma/hca": "1"}) == {SLICE: "2", "rdma/hca": "1"}
    assert amounts(0, SLICE, {"rdma/hca": "1"}) == {"rdma/hca": "1"}


@pytest.mark.parametrize(
    ("number", "stored"), [(1, "1"), (999, "999"), (1000, "1k"), (1024, "1024")]
)
def test_a_number_has_the_form_in_which_the_api_server_stores_it(number: int, stored: str) -> None:
    """Another form would differ from the live object at every reconciliation."""
    assert amounts(number, GPU_RESOURCE, {}) == {GPU_RESOURCE: stored}
    assert amounts(0, GPU_RESOURCE, {"a/b": str(number)}) == {"a/b": stored}


def test_a_resource_that_gpu_counts_is_no_further_resource() -> None:
    error = resources_error("amd.com/gpu", {"amd.com/gpu": "1"})

    assert error is not None
    assert error.field == "resources['amd.com/gpu']"
    assert resources_error("amd.com/gpu", {GPU_RESOURCE: "1"}) is None


def test_the_containers_of_a_pod_hold_the_sum_by_resource() -> None:
    found = held_by(
        pod({GPU_RESOURCE: "1", "cpu": "4"}, {GPU_RESOURCE: 2, SLICE: "3", "a/b": "0"})
    )

    assert found == {GPU_RESOURCE: 3, SLICE: 3}


@pytest.mark.parametrize("odd", [{}, {"spec": 3}, pod(None), pod([1]), pod({SLICE: "lots"})])
def test_a_pod_of_any_shape_is_accepted(odd: Any) -> None:
    assert not held_by(odd)


def test_a_node_offers_only_extended_resources() -> None:
    status = {
        "allocatable": {GPU_RESOURCE: "7", SLICE: "2", "cpu": "64", "hugepages-2Mi": "0"},
        "capacity": {GPU_RESOURCE: "8", "kubernetes.io/batteries": "1"},
    }

    assert offered_by({"status": status}) == {GPU_RESOURCE: 7, SLICE: 2}
    assert offered_by({"status": status}, "capacity") == {GPU_RESOURCE: 8}
    assert offered_by({"status": 3}) == {}


@pytest.mark.parametrize("spec", [None, {}, {"resourceName": ""}, {"resourceName": 1}, [SLICE]])
def test_a_spec_without_a_resource_has_the_default(spec: object) -> None:
    assert resource_in(spec) == GPU_RESOURCE
    assert resource_in({"resourceName": SLICE}) == SLICE
