"""How a pod came up is told by its own status and Events, whatever those hold."""

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


def told(found: dict[str, Any], *events: ObjectEvent) -> list[tuple[str, bool, Shape, str]]:
    """Return each step's name, whether it has happened, its shape and its words."""
    return [
        (step.name, step.at is not None, step.shape, step.text)
        for step in pod_steps(found, events)
    ]


def test_a_pod_that_is_well_has_every_step_with_its_time() -> None:
    running = {"running": {"startedAt": "2026-01-31T12:00:05Z"}}
    others = event("Pulled", "of another", name="unit-b-1")

    steps = told(pod(running, ready="True"), event("Pulled", "already present"), others)

    assert steps == [
        ("Made", True, Shape.READY, ""),
        ("Scheduled", True, Shape.READY, "on node-1"),
        ("Image", True, Shape.READY, "already present"),
        ("Started", True, Shape.READY, ""),
        ("Ready", True, Shape.READY, ""),
    ]


def test_one_that_no_node_fits_says_so_where_it_would_be_scheduled() -> None:
    said = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}
    found = {"metadata": {"name": NAME}, "status": {"conditions": [said]}}

    assert told(found)[1:] == [
        ("Scheduled", False, Shape.FAILED, "not yet: 0/2 nodes are available"),
        ("Ready", False, Shape.OFF, "not yet"),
    ]


def test_an_image_that_cannot_be_pulled_is_said_at_the_image() -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "manifest unknown"}}

    assert told(pod(waiting))[2:] == [
        ("Image", False, Shape.FAILED, "ImagePullBackOff: manifest unknown"),
        ("Ready", False, Shape.OFF, "not yet: ImagePullBackOff"),
    ]


def test_one_that_crashes_says_how_its_last_run_ended() -> None:
    ended = {
        "reason": "Error",
        "exitCode": 3,
        "startedAt": "2026-01-31T12:00:05Z",
        "finishedAt": "2026-01-31T12:00:06Z",
    }
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}

    steps = told(pod(waiting, lastState={"terminated": ended}, restartCount=4))

    assert steps[2:] == [
        ("Started", True, Shape.READY, "its last run"),
        ("Ended", True, Shape.FAILED, "Error: exit code 3, 4 restarts"),
        ("Ready", False, Shape.OFF, "not yet: CrashLoopBackOff"),
    ]


@pytest.mark.parametrize(
    ("probe", "events", "words"),
    [
        (None, (), "not yet: it runs, and it does not get ready"),
        ({"httpGet": {}}, (), "not yet: it runs, and its readiness probe does not pass"),
        (None, (event("Unhealthy", "Readiness probe failed"),), "not yet: Readiness probe failed"),
    ],
    ids=["no-probe", "a-probe", "an-event"],
)
def test_one_that_runs_and_is_not_ready_names_its_probe(
    probe: dict[str, Any] | None, events: tuple[ObjectEvent, ...], words: str
) -> None:
    running = {"running": {"startedAt": "2026-01-31T12:00:05Z"}}
    found = pod(running)
    found["spec"]["containers"] = [{"readinessProbe": probe}]

    name, has_happened, shape, text = told(found, *events)[-1]

    assert (name, has_happened, shape) == ("Ready", False, Shape.WAITING)
    assert text.startswith(words)


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
def test_a_status_of_any_shape_is_no_fault(found: dict[str, Any]) -> None:
    assert told(found)[0] == ("Made", False, Shape.READY, "")
