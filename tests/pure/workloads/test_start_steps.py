"""The steps of the start of a pod, from timestamps and Events."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpuplatform.clock import rfc3339
from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.start_steps import (
    StartStep,
    StepTime,
    is_complete,
    may_pull,
    start_steps,
    steps_in,
)

CLAIMED = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
LATER = CLAIMED + timedelta(hours=1)
SIZE = 'Successfully pulled image "a:1" in 9.1s (9.1s including waiting). Image size: 3 bytes.'


def second(number: int) -> str:
    return rfc3339(CLAIMED + timedelta(seconds=number))


def pod(
    *,
    created: int = 1,
    placed: int | None = None,
    started: int | None = None,
    ready: int | None = None,
    uid: str = "pod-1",
) -> Manifest:
    """Return a pod with the times of its states, in seconds after the claim."""
    times = {"PodScheduled": placed, "Ready": ready}
    conditions: list[dict[str, Any]] = [
        {"type": type_, "status": "False", "lastTransitionTime": second(created)}
        if at is None
        else {"type": type_, "status": "True", "lastTransitionTime": second(at)}
        for type_, at in times.items()
    ]
    state: dict[str, Any] = {"waiting": {"reason": "ContainerCreating"}}
    if started is not None:
        state = {"running": {"startedAt": second(started)}}
    return {
        "metadata": {"name": "a", "uid": uid, "creationTimestamp": second(created)},
        "status": {"conditions": conditions, "containerStatuses": [{"name": "a", "state": state}]},
    }


def event(reason: str, at: int, message: str = "", uid: str = "pod-1") -> Manifest:
    return {
        "reason": reason,
        "message": message,
        "involvedObject": {"uid": uid},
        "lastTimestamp": second(at),
    }


def found(
    *pods: Manifest,
    events: list[Manifest] | None = None,
    previous: list[StepTime] | None = None,
    at: datetime = LATER,
) -> list[tuple[str, int | None]]:
    steps = start_steps(previous or [], CLAIMED, pods, events or [], at)
    return [(step.step.value, step.seconds) for step in steps]


@pytest.mark.parametrize(
    ("pods", "steps"),
    [
        ([], [("GPU", None)]),
        ([pod()], [("GPU", None)]),
        ([pod(placed=2)], [("GPU", 2), ("ContainerStart", None)]),
        (
            [pod(placed=2, started=3)],
            [("GPU", 2), ("ContainerStart", 1), ("Readiness", None)],
        ),
        (
            [pod(placed=2, started=3, ready=10)],
            [("GPU", 2), ("ContainerStart", 1), ("Readiness", 7)],
        ),
    ],
    ids=["no pod", "not placed", "placed", "started", "ready"],
)
def test_each_step_begins_when_the_previous_one_ends(
    pods: list[Manifest], steps: list[tuple[str, int | None]]
) -> None:
    assert found(*pods) == steps


def test_a_pull_in_progress_is_the_last_step() -> None:
    events = [event("Scheduled", 2), event("Pulling", 3)]

    assert found(pod(placed=2), events=events) == [("GPU", 2), ("ImagePull", None)]


def test_a_pull_is_a_step_with_the_message_of_the_kubelet() -> None:
    events = [event("Pulling", 3), event("Pulled", 12, SIZE)]

    steps = start_steps([], CLAIMED, [pod(placed=2, started=13, ready=14)], events, LATER)

    assert [(step.step, step.seconds) for step in steps] == [
        (StartStep.GPU, 2),
        (StartStep.IMAGE_PULL, 10),
        (StartStep.CONTAINER_START, 1),
        (StartStep.READINESS, 1),
    ]
    assert steps[1].text == SIZE
    assert is_complete(steps)


def test_a_pull_that_begins_and_ends_in_one_second_has_ended() -> None:
    events = [event("Pulling", 3), event("Pulled", 3, SIZE)]

    assert found(pod(placed=2), events=events)[1] == ("ImagePull", 1)


def test_a_pull_that_is_retried_is_in_progress() -> None:
    events = [event("Pulling", 9), event("Failed", 5)]

    assert found(pod(placed=2), events=events)[-1] == ("ImagePull", None)


@pytest.mark.parametrize(
    "events",
    [[event("Pulled", 3, "already present")], [event("Pulling", 3, uid="another")]],
    ids=["image present", "of another pod"],
)
def test_without_a_pull_of_the_pod_there_is_no_such_step(events: list[Manifest]) -> None:
    steps = found(pod(placed=2, started=3, ready=4), events=events)

    assert "ImagePull" not in dict(steps)


@pytest.mark.parametrize("hours", [-1, 1])
def test_the_clock_of_a_node_lengthens_and_reverses_no_step(hours: int) -> None:
    off = hours * 3600
    steps = found(
        pod(placed=2, started=3 + off, ready=10 + off), at=CLAIMED + timedelta(seconds=11)
    )

    assert all(seconds is not None and 0 <= seconds <= 11 for _, seconds in steps)


def test_complete_steps_remain_while_their_pod_exists() -> None:
    complete = start_steps([], CLAIMED, [pod(placed=2, started=3, ready=4)], [], LATER)

    assert start_steps(complete, LATER, [pod(placed=2, started=3)], [], LATER) == complete
    assert start_steps(complete, LATER, [], [], LATER) == complete


def test_the_steps_of_a_later_pod_begin_with_its_creation() -> None:
    complete = start_steps([], CLAIMED, [pod(placed=2, started=3, ready=4)], [], LATER)
    replaced = pod(created=100, placed=101, uid="pod-2")

    steps = start_steps(complete, CLAIMED, [pod(), replaced], [], LATER)

    assert [(step.step, step.seconds) for step in steps] == [
        (StartStep.GPU, 1),
        (StartStep.CONTAINER_START, None),
    ]
    again = start_steps(steps, CLAIMED, [replaced], [], LATER)
    assert again == steps


def test_steps_are_read_as_they_are_written() -> None:
    events = [event("Pulling", 3), event("Pulled", 12, SIZE)]
    steps = start_steps([], CLAIMED, [pod(placed=2, started=13)], events, LATER)
    status = {"startSteps": [step.manifest() for step in steps]}

    assert steps_in(status) == steps


@pytest.mark.parametrize(
    "entry",
    [
        None,
        {},
        {"step": "GPU"},
        {"step": "Lunch", "since": second(1)},
        {"step": "GPU", "since": 1},
    ],
)
def test_invalid_entries_of_a_status_are_omitted(entry: Any) -> None:
    assert steps_in({"startSteps": [entry]}) == []


@pytest.mark.parametrize(
    ("pods", "at", "is_read"),
    [
        (pod(), 60, False),
        (pod(placed=2), 3, False),
        (pod(placed=2), 5, True),
        (pod(placed=2, started=3), 60, False),
        (pod(placed=2, started=9), 60, True),
    ],
    ids=["not placed", "just placed", "starts slowly", "started", "started slowly"],
)
def test_events_are_read_only_for_a_slow_start(pods: Manifest, at: int, is_read: bool) -> None:
    assert may_pull(pods, CLAIMED + timedelta(seconds=at)) == is_read


@pytest.mark.parametrize(
    ("reason", "is_read"),
    [("ErrImagePull", True), ("ImagePullBackOff", True), ("ContainerCreating", False)],
)
def test_events_of_a_pod_whose_pull_has_failed_are_read_at_once(
    reason: str, *, is_read: bool
) -> None:
    starting = pod(placed=2)
    starting["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": reason}}

    assert may_pull(starting, CLAIMED + timedelta(seconds=2)) == is_read
