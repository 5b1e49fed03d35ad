"""The extended resources of a simulated node: options, status and lost devices."""

import pytest

from gpuplatform.dev.simulator.kubelet.control import NodeControl
from gpuplatform.dev.simulator.kubelet.nodes import NodePlace, node_images, node_status
from gpuplatform.dev.simulator.kubelet.options import GPU, Options

SLICE = "nvidia.com/mig-1g.10gb"
MIXED = Options(gpus=4, resources=f"{SLICE}=7,rdma/hca=1")


def test_a_node_has_the_devices_of_its_options() -> None:
    assert MIXED.devices() == {GPU: 4, SLICE: 7, "rdma/hca": 1}
    assert Options(gpus=0).devices() == {}
    with pytest.raises(ValueError, match="invalid literal"):
        Options(resources=SLICE).devices()


def test_lost_devices_stay_in_the_capacity_of_the_node() -> None:
    control = NodeControl(gpus=9, resources={SLICE: 2})

    status = node_status(
        MIXED, control, {"metadata": {"name": "a"}}, NodePlace(0, 1), 1_800_000_000.0
    )

    assert {name: status["capacity"][name] for name in MIXED.devices()} == {
        GPU: "4",
        SLICE: "7",
        "rdma/hca": "1",
    }
    allocatable = status["allocatable"]
    assert (allocatable[GPU], allocatable[SLICE], allocatable["rdma/hca"]) == ("4", "2", "1")


@pytest.mark.parametrize(
    "images", [None, [None], [{}], [{"names": None}], [{"names": []}], [{"names": [1]}]]
)
def test_an_odd_list_of_images_is_replaced(images: object) -> None:
    node = {"status": {"images": images}}

    [found] = node_images(node, {"docker.io/library/busybox:1"})

    assert found["names"][-1] == "docker.io/library/busybox:1"
