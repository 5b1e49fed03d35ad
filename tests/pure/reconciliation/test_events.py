"""Changes that cause an Event, its fields, and the rate limit for one object."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpuplatform.formats.names import dns_subdomain
from gpuplatform.kube.kinds import GPU_UNIT, Manifest
from gpuplatform.lifecycle.conditions import Condition
from gpuplatform.planning.plan import Event, EventType, Status
from gpuplatform.reconciliation.events import (
    BURST,
    MAX_OBJECTS,
    REFILL_SECONDS,
    InvolvedObject,
    Limits,
    event_manifest,
    new_events,
    repeated,
)

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
READY = Event(EventType.NORMAL, "UnitReady", "The pod is ready.")
FAILED = Event(EventType.WARNING, "PodStartupFailed", "exit code 3")
SUBJECT = InvolvedObject(GPU_UNIT, "runtime-instance", "a", "11111111-2222-4333-8444-555555555555")


def status(phase: str, event: Event | None) -> Status:
    return Status(phase, (Condition("Ready", "False", "x", "y", 1),), 1, event=event)


def resource(phase: str = "", reason: str = "", message: str = "") -> Manifest:
    conditions = [{"type": "Ready", "reason": reason, "message": message}]
    return {"status": {"phase": phase, "conditions": conditions} if phase else {}}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(resource(), status("Ready", READY), [READY], id="ready at once"),
        pytest.param(resource("Failed"), status("Ready", READY), [READY], id="healed"),
        pytest.param(
            resource("Ready", "UnitReady", "2 of 2"), status("Ready", READY), [], id="a count"
        ),
        pytest.param(
            resource("Failed", "PodStartupFailed", "exit code 3"),
            status("Failed", FAILED),
            [],
            id="the same failure",
        ),
        pytest.param(
            resource("Failed", "PodStartupFailed", "exit code 4"),
            status("Failed", FAILED),
            [FAILED],
            id="another failure",
        ),
        pytest.param(resource("Ready"), status("Progressing", None), [], id="passed through"),
    ],
)
def test_another_phase_or_failure_causes_an_event(
    before: Manifest, after: Status, expected: list[Event]
) -> None:
    assert new_events(before, after) == expected


def test_equal_events_have_equal_names() -> None:
    def name(subject: InvolvedObject, event: Event) -> Any:
        return event_manifest(subject, event, NOW)["metadata"]["name"]

    successor = InvolvedObject(GPU_UNIT, "runtime-instance", "a", "another")

    assert name(SUBJECT, READY) == name(SUBJECT, READY)
    assert len({name(SUBJECT, READY), name(SUBJECT, FAILED), name(successor, READY)}) == 3


def test_an_event_has_its_object_content_and_time() -> None:
    manifest = event_manifest(SUBJECT, FAILED, NOW)

    assert manifest["involvedObject"] == {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "GPUUnit",
        "namespace": "runtime-instance",
        "name": "a",
        "uid": SUBJECT.uid,
    }
    assert (manifest["type"], manifest["reason"], manifest["message"]) == (
        "Warning",
        "PodStartupFailed",
        "exit code 3",
    )
    assert manifest["firstTimestamp"] == manifest["lastTimestamp"] == "2026-01-31T12:00:00Z"
    assert (manifest["count"], manifest["source"]) == (1, {"component": "gpu-platform"})


def test_the_longest_name_and_message_still_make_an_event() -> None:
    subject = InvolvedObject(GPU_UNIT, "default", ("a" * 219 + ".b" + "c" * 32), "uid")

    manifest = event_manifest(subject, Event(EventType.WARNING, "Failed", "x" * 5000), NOW)

    assert dns_subdomain(manifest["metadata"]["name"])
    assert len(manifest["message"]) == 1024


@pytest.mark.parametrize(("count", "then"), [(1, 2), (7, 8), (None, 2), ("many", 2)])
def test_a_repeated_event_is_counted(count: object, then: int) -> None:
    later = NOW + timedelta(minutes=1)

    assert repeated({"count": count}, later) == {
        "count": then,
        "lastTimestamp": "2026-01-31T12:01:00Z",
    }


def test_events_of_one_object_are_limited() -> None:
    limits = Limits()

    at_once = [limits.allow("a", NOW) for _ in range(BURST + 5)]
    later = NOW + timedelta(seconds=REFILL_SECONDS)

    assert at_once == [True] * BURST + [False] * 5
    assert limits.allow("b", NOW), "another object has its own"
    assert [limits.allow("a", later), limits.allow("a", later)] == [True, False]


def test_the_limits_of_the_oldest_objects_are_forgotten() -> None:
    limits = Limits()

    for number in range(MAX_OBJECTS + 10):
        limits.allow(str(number), NOW)

    assert len(limits._left) == MAX_OBJECTS
