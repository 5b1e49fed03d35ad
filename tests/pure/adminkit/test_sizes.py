"""Desired and actual sizes; values that could not be read are unknown."""

from typing import Any

import pytest

from gpuplatform.adminkit.detail.sizes import MISSING, PLACEHOLDER_IMAGE, UNKNOWN, actual_sizes
from gpuplatform.reconciliation.inspection import Inspection

SPEC = {"image": "nginx:1.27", "cpu": "4", "memory": "16Gi", "gpu": 2}


def pod(limits: Any, image: str = "nginx:1.27", **metadata: str) -> dict[str, Any]:
    sidecar = {"name": "sidecar", "image": "sidecar:1", "resources": {"limits": {"cpu": "1"}}}
    main = {"name": "main", "image": image, "resources": {"limits": limits}}
    metadata = {"name": "unit-a-1", **metadata}
    return {"metadata": metadata, "spec": {"containers": [sidecar, main]}}


def found(**parts: Any) -> Inspection:
    return Inspection(resource={"spec": SPEC}, **parts)


def compared(inspection: Inspection) -> dict[str, tuple[str, str, bool]]:
    shown = actual_sizes(inspection)
    assert shown is not None
    return {line.label: (line.desired, line.actual, line.differs) for line in shown.lines}


SAME = {"cpu": "4000m", "memory": "17179869184", "nvidia.com/gpu": "2"}


def test_quantities_of_the_container_with_gpus_are_compared_by_value() -> None:
    lines = compared(found(pods=[pod(SAME)]))

    assert not [label for label, (_, _, differs) in lines.items() if differs]
    assert lines["Image"][1] == "nginx:1.27"
    assert lines["GPUs"] == ("2", "2", False)


def test_differences_are_marked() -> None:
    lines = compared(
        found(pods=[pod({"memory": "8Gi", "nvidia.com/gpu": "1"}, image="nginx:1.26")])
    )

    assert all(differs for _, _, differs in lines.values())
    assert lines["CPU"][1] == "none"


def test_without_a_pod_the_deployment_is_compared() -> None:
    template = {"spec": pod(SAME)["spec"]}
    terminating = pod({}, deletionTimestamp="2026-01-31T12:00:00Z")
    shown = actual_sizes(found(deployment={"spec": {"template": template}}, pods=[terminating]))

    assert shown is not None
    assert "Deployment" in shown.source
    assert not any(line.differs for line in shown.lines)


@pytest.mark.parametrize(
    ("faults", "actual", "differs"),
    [(("forbidden",), UNKNOWN, False), ((), MISSING, True)],
    ids=["unreadable", "absent"],
)
def test_a_value_that_cannot_be_read_is_unknown(
    faults: tuple[str, ...], actual: str, differs: bool
) -> None:
    lines = compared(found(faults=faults))

    assert {line[1:] for line in lines.values()} == {(actual, differs)}


def test_stock_runs_the_placeholder_image() -> None:
    stock = Inspection(resource={"spec": {"gpu": 2}}, pods=[pod(SAME, image="busybox:1.36")])

    assert compared(stock)["Image"] == (PLACEHOLDER_IMAGE, "busybox:1.36", False)


@pytest.mark.parametrize("odd", [None, {}, {"spec": 5}, {"spec": []}])
def test_without_a_resource_nothing_is_compared(odd: Any) -> None:
    assert actual_sizes(Inspection(resource=odd, pods=[pod(SAME)])) is None


@pytest.mark.parametrize("limits", [None, 5, [1], {"nvidia.com/gpu": None}])
def test_limits_of_any_shape_are_accepted(limits: Any) -> None:
    assert compared(found(pods=[pod(limits), {"spec": 5}]))
