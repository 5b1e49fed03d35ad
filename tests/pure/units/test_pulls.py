"""Whether a unit that cannot start on its node is started on another node."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, Manifest
from gpuplatform.planning.plan import Absent, Create, Patch
from gpuplatform.workloads.releases import TEMPLATE_VERSION, TEMPLATE_VERSION_ANNOTATION
from tests.factories.nodes import node_manifest, record
from tests.factories.planned_units import (
    SOURCE,
    observed_unit,
    stock_resource,
    unit_deployment,
    unit_pod,
    unit_resource,
)
from units.core.names import AVOIDED_NODE_ANNOTATION
from units.core.plan import plan_unit
from units.core.pulls import LOST_SECONDS, node_to_leave
from units.core.sources import SourceGone

BEGUN = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
LATE = BEGUN + timedelta(minutes=1)
AVOIDING = {**SOURCE.annotations(), AVOIDED_NODE_ANNOTATION: "gpu-node-1"}


def failed_pod(unit: Manifest, reason: str = "ErrImagePull") -> Manifest:
    waiting = {"waiting": {"reason": reason, "message": "not found"}}
    pod = unit_pod(
        unit,
        startTime="2026-01-31T12:00:00Z",
        containerStatuses=[{"name": "runtime-worker", "state": waiting}],
    )
    pod["spec"] = {"nodeName": "gpu-node-1"}
    return pod


def node(unit: Manifest, pod: Manifest | None = None, **more: Any) -> str:
    observed = {"at": LATE, **more}
    return node_to_leave(unit, observed_unit(pods=[pod or failed_pod(unit)], **observed))


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"])
def test_a_failed_pull_is_tried_on_another_node(reason: str) -> None:
    unit = unit_resource()

    assert node(unit, failed_pod(unit, reason)) == "gpu-node-1"


@pytest.mark.parametrize(
    ("unit", "more"),
    [
        (unit_resource(), {"at": BEGUN}),
        (unit_resource(), {"is_start_void": True}),
        (unit_resource(suspend=True), {}),
        (unit_resource(metadata={"annotations": AVOIDING}), {}),
        (unit_resource(metadata={"annotations": {}}), {}),
        (stock_resource(), {}),
        (unit_resource(gpu="many"), {}),
    ],
    ids=["grace", "void", "suspended", "tried", "no source", "stock", "invalid"],
)
def test_another_node_is_not_tried(unit: Manifest, more: dict[str, Any]) -> None:
    assert node(unit, **more) == ""


@pytest.mark.parametrize("reason", ["InvalidImageName", "CrashLoopBackOff", "ContainerCreating"])
def test_a_failure_that_every_node_would_have_is_not_tried(reason: str) -> None:
    unit = unit_resource()

    assert node(unit, failed_pod(unit, reason)) == ""


def unplaced_pod(unit: Manifest) -> Manifest:
    scheduled = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    }
    return unit_pod(unit, conditions=[scheduled])


@pytest.mark.parametrize(
    ("seconds", "state", "expected"),
    [
        (0, {"is_cordoned": True}, "n1"),
        (0, {"is_ready": False}, "n1"),
        (0, {"taints": [{"key": "maintenance", "effect": "NoSchedule"}]}, "n1"),
        (0, {}, ""),
        (0, {"gpus": 0}, ""),
        (LOST_SECONDS, {}, "n1"),
        (LOST_SECONDS, {"gpus": 0}, "n1"),
    ],
)
def test_a_unit_whose_place_is_lost_is_tried_on_another_node(
    seconds: float, state: dict[str, Any], expected: str
) -> None:
    unit = unit_resource()
    at = BEGUN + timedelta(seconds=seconds)
    source_node = record(node_manifest("n1", **state))

    assert node(unit, unplaced_pod(unit), at=at, source_node=source_node) == expected
    assert node(unit, unplaced_pod(unit), at=at, source_node=None) == ""
    assert node(unit, unit_pod(unit), at=at, source_node=source_node) == ""


def test_a_unit_is_tried_on_another_node_once() -> None:
    unit = unit_resource(metadata={"annotations": AVOIDING})
    source_node = record(node_manifest(is_cordoned=True))

    assert node(unit, unplaced_pod(unit), at=BEGUN, source_node=source_node) == ""


def affinity_of(deployment: Manifest) -> Any:
    return deployment["spec"]["template"]["spec"].get("affinity")


def test_the_pod_avoids_the_node() -> None:
    unit = unit_resource(metadata={"annotations": AVOIDING})

    [action] = _on_deployment(unit, source=SourceGone(may_preempt=True))

    assert isinstance(action, Create)
    required = affinity_of(action.manifest)["nodeAffinity"]
    [term] = required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchFields"] == [
        {"key": "metadata.name", "operator": "NotIn", "values": ["gpu-node-1"]}
    ]


@pytest.mark.parametrize("name", ["", "Node 1", "-", "x" * 300, 7])
def test_an_invalid_name_of_a_node_is_ignored(name: Any) -> None:
    marks = {**SOURCE.annotations(), AVOIDED_NODE_ANNOTATION: name}
    unit = unit_resource(metadata={"annotations": marks})

    [action] = _on_deployment(unit, source=SourceGone(may_preempt=True))

    assert isinstance(action, Create)
    assert affinity_of(action.manifest) is None


@pytest.mark.parametrize("version", [TEMPLATE_VERSION, TEMPLATE_VERSION - 1])
@pytest.mark.parametrize("was_avoiding", [False, True], ids=["plain", "avoiding"])
def test_a_start_changes_the_avoided_node(version: int, *, was_avoiding: bool) -> None:
    plain, avoiding = unit_resource(), unit_resource(metadata={"annotations": AVOIDING})
    before, after = (avoiding, plain) if was_avoiding else (plain, avoiding)
    stopped = unit_deployment(before, replicas=0)
    stopped["metadata"]["annotations"][TEMPLATE_VERSION_ANNOTATION] = str(version)

    [action] = _on_deployment(after, stopped, source=SourceGone(may_preempt=True))

    assert isinstance(action, Patch)
    affinity = action.patch["spec"]["template"]["spec"]["affinity"]
    assert (affinity is None) == was_avoiding


def _on_deployment(unit: Manifest, deployment: Any = Absent(), **more: Any) -> list[Any]:  # noqa: B008 - the default is immutable
    plan = plan_unit(unit, observed_unit(deployment, **more))
    return [action for action in plan.actions if action.kind == DEPLOYMENT]
