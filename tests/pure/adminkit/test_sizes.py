"""What really runs stands beside what is wanted, and what was not read is said to be unknown."""

from typing import Any

import pytest

from gpuplatform.adminkit.detail.sizes import NONE_THERE, OWN_IMAGE, UNKNOWN, running
from gpuplatform.reconciliation.inspection import Inspection

SPEC = {"image": "nginx:1.27", "cpu": "4", "memory": "16Gi", "gpu": 2}


def pod(limits: Any, image: str = "nginx:1.27", **metadata: str) -> dict[str, Any]:
    sidecar = {"name": "sidecar", "image": "sidecar:1", "resources": {"limits": {"cpu": "1"}}}
    main = {"name": "main", "image": image, "resources": {"limits": limits}}
    metadata = {"name": "unit-a-1", **metadata}
    return {"metadata": metadata, "spec": {"containers": [sidecar, main]}}


def found(**parts: Any) -> Inspection:
    return Inspection(resource={"spec": SPEC}, **parts)


def said(inspection: Inspection) -> dict[str, tuple[str, str, bool]]:
    shown = running(inspection)
    assert shown is not None
    return {line.label: (line.wanted, line.seen, line.differs) for line in shown.lines}


SAME = {"cpu": "4000m", "memory": "17179869184", "nvidia.com/gpu": "2"}


def test_amounts_are_compared_by_their_value_in_the_container_with_the_gpus() -> None:
    lines = said(found(pods=[pod(SAME)]))

    assert not [label for label, (_, _, differs) in lines.items() if differs]
    assert lines["Image"][1] == "nginx:1.27"
    assert lines["GPUs"] == ("2", "2", False)


def test_what_differs_is_marked() -> None:
    lines = said(found(pods=[pod({"memory": "8Gi", "nvidia.com/gpu": "1"}, image="nginx:1.26")]))

    assert all(differs for _, _, differs in lines.values())
    assert lines["CPU"][1] == "none"


def test_without_a_pod_the_deployment_tells() -> None:
    template = {"spec": pod(SAME)["spec"]}
    going = pod({}, deletionTimestamp="2026-01-31T12:00:00Z")
    shown = running(found(deployment={"spec": {"template": template}}, pods=[going]))

    assert shown is not None
    assert shown.seen_in == "in the Deployment; there is no pod"
    assert not any(line.differs for line in shown.lines)


@pytest.mark.parametrize(
    ("faults", "seen", "differs"), [(("forbidden",), UNKNOWN, False), ((), NONE_THERE, True)]
)
def test_what_was_not_read_is_unknown_and_not_nothing(
    faults: tuple[str, ...], seen: str, differs: bool
) -> None:
    lines = said(found(faults=faults))

    assert {line[1:] for line in lines.values()} == {(seen, differs)}


def test_stock_runs_an_image_of_the_platform() -> None:
    stock = Inspection(resource={"spec": {"gpu": 2}}, pods=[pod(SAME, image="busybox:1.36")])

    assert said(stock)["Image"] == (OWN_IMAGE, "busybox:1.36", False)


@pytest.mark.parametrize("odd", [None, {}, {"spec": 5}, {"spec": []}])
def test_without_a_resource_there_is_nothing_to_compare(odd: Any) -> None:
    assert running(Inspection(resource=odd, pods=[pod(SAME)])) is None


@pytest.mark.parametrize("limits", [None, 5, [1], {"nvidia.com/gpu": None}])
def test_odd_limits_are_no_fault(limits: Any) -> None:
    assert said(found(pods=[pod(limits), {"spec": 5}]))
