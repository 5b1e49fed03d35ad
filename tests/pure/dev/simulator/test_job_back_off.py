"""The delay before a failed pod of a Job is replaced."""

from datetime import UTC, datetime, timedelta

import pytest

from gpuplatform import clock
from gpuplatform.dev.simulator.apiserver.controllers.job_back_off import Failures, finished_at
from gpuplatform.dev.simulator.apiserver.objects import Manifest

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: int) -> str:
    return clock.rfc3339(START + timedelta(seconds=seconds))


def ended(seconds: int, phase: str = "Failed") -> Manifest:
    end = {"state": {"terminated": {"finishedAt": at(seconds)}}}
    return {"metadata": {}, "status": {"phase": phase, "containerStatuses": [end]}}


def delays(*pods: Manifest) -> list[float]:
    """Return the delay in seconds after each of the pods, which end one by one."""
    found, seconds = Failures(), []
    for pod in pods:
        found = found.after([pod])
        moment = found.replaced_at()
        seconds.append((moment - finished_at(pod)).total_seconds() if moment else 0.0)
    return seconds


def test_the_delay_is_doubled_up_to_ten_minutes() -> None:
    assert delays(*map(ended, range(8))) == [10, 20, 40, 80, 160, 320, 600, 600]


def test_a_success_ends_the_delay() -> None:
    assert delays(ended(1), ended(2), ended(3, "Succeeded"), ended(4)) == [10, 20, 0, 10]


def test_pods_that_ended_together_count_in_the_order_of_their_ends() -> None:
    found = Failures().after([ended(9), ended(5, "Succeeded"), ended(1)])

    assert found == Failures(1, START + timedelta(seconds=9))


@pytest.mark.parametrize(
    ("pod", "seconds"),
    [
        (ended(3), 3),
        ({"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}}, None),
        (
            {
                "metadata": {"deletionTimestamp": at(9), "deletionGracePeriodSeconds": 5},
                "status": {"containerStatuses": [{"state": {"running": {}}}]},
            },
            4,
        ),
        ({"metadata": {"creationTimestamp": at(1)}}, 1),
    ],
    ids=["containers", "condition", "deletion", "creation"],
)
def test_the_end_of_a_pod(pod: Manifest, seconds: int | None) -> None:
    if seconds is None:
        seconds = 7
        pod["status"]["conditions"][0]["lastTransitionTime"] = at(seconds)

    assert finished_at(pod) == START + timedelta(seconds=seconds)
