"""The steps of the start of a pod, for a status and Events of any shape."""

from typing import Any

import pytest

from gpuplatform.adminkit.detail.pods import pod_steps
from gpuplatform.adminkit.display.badges import Shape
from gpuplatform.reconciliation.inspection import ObjectEvent

NAME = "unit-a-1"


def event(reason: str, message: str, name: str = NAME) -> ObjectEvent:
    at = "2026-01-31T12:00:04Z"
    return ObjectEvent("Normal", reason, message, 1, "Pod", name, "kubelet", at, at)


def pod(state: dict[str, Any], *, ready: str = "False", **status: Any) -> dict[str, Any]:
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-31T12:00:01Z"},
        {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-31T12:00:09Z"},
    ]
    container = {"state": state, **status}
    return {
        "metadata": {"name": NAME, "creationTimestamp": "2026-01-31T12:00:00Z"},
        "spec": {"nodeName": "node-1"},
        "status": {"conditions": conditions, "containerStatuses": [container]},
    }


def steps_of(found: dict[str, Any], *events: ObjectEvent) -> list[tuple[str, bool, Shape, str]]:
    """Return the name, whether it has happened, the shape and the text of each step."""
    return [
        (step.name, step.at is not None, step.shape, step.text)
        for step in pod_steps(found, events)
    ]


def test_a_ready_pod_has_every_step_with_its_time() -> None:
    running = {"running": {"startedAt": "2026-01-31T12:00:05Z"}}
    others = event("Pulled", "of another", name="unit-b-1")

    steps = steps_of(pod(running, ready="True"), event("Pulled", "already present"), others)

    assert steps == [
        ("Created", True, Shape.READY, ""),
        ("Scheduled", True, Shape.READY, "on node-1"),
        ("Image pull", True, Shape.READY, "already present"),
        ("Started", True, Shape.READY, ""),
        ("Ready", True, Shape.READY, ""),
    ]


def test_an_unschedulable_pod_has_the_message_at_its_scheduling() -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}
    found = {"metadata": {"name": NAME}, "status": {"conditions": [condition]}}

    assert steps_of(found)[1:] == [
        ("Scheduled", False, Shape.FAILED, "not yet: 0/2 nodes are available"),
        ("Ready", False, Shape.OFF, "not yet"),
    ]


def test_a_failed_image_pull_has_the_message_at_its_step() -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "manifest unknown"}}

    assert steps_of(pod(waiting))[2:] == [
        ("Image pull", False, Shape.FAILED, "ImagePullBackOff: manifest unknown"),
        ("Ready", False, Shape.OFF, "not yet: ImagePullBackOff"),
    ]


def test_a_crashing_container_has_the_end_of_its_previous_run() -> None:
    ended = {
        "reason": "Error",
        "exitCode": 3,
        "startedAt": "2026-01-31T12:00:05Z",
        "finishedAt": "2026-01-31T12:00:06Z",
    }
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}

    steps = steps_of(pod(waiting, lastState={"terminated": ended}, restartCount=4))

    assert steps[2:] == [
        ("Started", True, Shape.READY, "previous run"),
        ("Ended", True, Shape.FAILED, "Error: exit code 3, 4 restarts"),
        ("Ready", False, Shape.OFF, "not yet: CrashLoopBackOff"),
    ]


@pytest.mark.parametrize(
    ("probe", "events", "text"),
    [
        (None, (), "not ready"),
        ({"httpGet": {}}, (), "readiness probe"),
        (None, (event("Unhealthy", "probe returned 503"),), "probe returned 503"),
    ],
    ids=["no-probe", "a-probe", "an-event"],
)
def test_a_running_container_that_is_not_ready_names_its_probe(
    probe: dict[str, Any] | None, events: tuple[ObjectEvent, ...], text: str
) -> None:
    running = {"running": {"startedAt": "2026-01-31T12:00:05Z"}}
    found = pod(running)
    found["spec"]["containers"] = [{"readinessProbe": probe}]

    name, has_happened, shape, shown = steps_of(found, *events)[-1]

    assert (name, has_happened, shape) == ("Ready", False, Shape.WAITING)
    assert text in shown


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"metadata": [], "status": "x"},
        {"status": {"containerStatuses": ["x"], "conditions": ["y"]}},
        {"metadata": {"creationTimestamp": "never"}, "status": {"containerStatuses": [{}]}},
        {"status": {"containerStatuses": [{"state": {"terminated": "x"}, "lastState": 7}]}},
    ],
    ids=["nothing", "other-types", "strings", "no-time", "odd-states"],
)
def test_a_status_of_any_shape_is_accepted(found: dict[str, Any]) -> None:
    assert steps_of(found)[0] == ("Created", False, Shape.READY, "")
