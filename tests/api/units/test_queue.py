"""The queue for stock in the API: waiting creates and starts, positions, and refusals."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from gpuplatform import clock
from gpuplatform.clock import parse_rfc3339
from gpuplatform.tenancy.models import Tenant
from inventory.models import GpuSpec
from tests.factories.unit_rows import spec_row, stock_row, unit_row
from tests.fakes.api import UNITS, Api
from tests.fakes.cluster import FakeCluster
from units.models import CapacityRequest, PreemptionNotice
from units.phases import QueueCause, UnitPhase
from units.requests import GpuUnitCreate
from units.services import queue
from units.services.units import unit_create

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogue")]

QUEUE = "/api/v1/operator/queue"


def body(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "operationID": f"create-{name}",
        "name": name,
        "specName": "g1.1",
        "image": "docker.io/library/nginx:1.27",
        **fields,
    }


def waiting(name: str) -> dict[str, Any]:
    return body(name, wait={"maxSeconds": 3600})


def test_a_waiting_create_shows_its_place_in_the_unit_and_the_operation(
    api: Api, cluster: FakeCluster
) -> None:
    accepted = api.post(UNITS, waiting("one"))
    api.post(UNITS, waiting("two"))

    assert (accepted.status, accepted.data["phase"]) == (202, "Pending")
    place = {"position": 2, "ahead": 1, "estimateSeconds": None}
    unit = api.get(f"{UNITS}/two").data
    assert (unit["phase"], unit["reason"]) == ("Pending", "WaitingForCapacity")
    assert unit["queue"] == place
    assert unit["image"] == "docker.io/library/nginx:1.27"
    assert api.get("/api/v1/operations/create-two").data["queue"] == place
    listed = {one["name"]: one["queue"] for one in api.get(UNITS).data}
    assert {name: one["position"] for name, one in listed.items()} == {"one": 1, "two": 2}


def test_a_create_without_wait_is_refused_with_the_number_of_waiting_requests(
    api: Api, cluster: FakeCluster
) -> None:
    none = api.post(UNITS, body("none"))
    for name in ("one", "two", "three"):
        api.post(UNITS, waiting(name))
    stock_row()

    refused = api.post(UNITS, body("four"))

    assert (none.status, none.json["error"]["waiting"]) == (409, 0)
    assert (refused.status, refused.json["error"]["code"]) == (409, "insufficient_capacity")
    assert refused.json["error"]["waiting"] == 3
    assert api.get(f"{UNITS}/four").status == 404


def test_a_start_that_waits_is_the_state_of_the_unit(api: Api, cluster: FakeCluster) -> None:
    unit_row(UnitPhase.STOPPED, name="trainer", is_suspended=True)
    unit_row(name="other")
    start = {"operationID": "start-1", "wait": {"maxSeconds": 86_400}}

    accepted = api.post(f"{UNITS}/trainer/start", start)
    again = api.post(f"{UNITS}/trainer/start", {"operationID": "start-2"})

    assert (accepted.status, again.status) == (202, 409)
    assert again.json["error"]["details"] == [{"field": "operationID", "message": "start-1"}]
    unit = api.get(f"{UNITS}/trainer").data
    assert (unit["phase"], unit["reason"]) == ("Pending", "WaitingForCapacity")
    assert unit["queue"]["position"] == 1
    for query, names in (
        ("phase=Stopped", []),
        ("phase=Pending", ["trainer"]),
        ("reason=WaitingForCapacity", ["trainer"]),
        ("reason=UnitReady", ["other"]),
        ("phase=Ready,Pending", ["other", "trainer"]),
    ):
        assert [one["name"] for one in api.get(f"{UNITS}?{query}").data] == names, query


def test_the_queue_shows_until_when_free_stock_is_held(api: Api, cluster: FakeCluster) -> None:
    api.post(UNITS, waiting("one"))
    api.post(UNITS, waiting("two"))
    begun = clock.now()
    held = CapacityRequest.objects.filter(unit__name="one")
    held.update(hold_begun_at=begun, hold_times=1)

    until = [one["heldUntil"] for one in api.get(QUEUE).data]

    assert [parse_rfc3339(until[0]), until[1]] == [begun + timedelta(minutes=20), None]


def test_the_queue_lists_all_tenants_in_order_with_the_cause(
    api: Api, cluster: FakeCluster
) -> None:
    other = Tenant.objects.create(name="other", namespace="tenant-other")
    spec_row("g2.1", gpu=1)
    api.post(UNITS, waiting("one"))
    unit_create(tenant=other, body=GpuUnitCreate.parse(waiting("two")))
    api.post(UNITS, {**waiting("three"), "specName": "g2.1"})
    GpuSpec.objects.filter(name="g1.1").delete()

    answer = api.get(QUEUE)

    rows = [
        (one["specName"], one["queue"]["position"], one["tenant"], one["unit"], one["cause"])
        for one in answer.data
    ]
    assert rows == [
        ("g1.1", 1, "default", "one", QueueCause.SPEC_MISSING),
        ("g1.1", 2, "other", "two", QueueCause.SPEC_MISSING),
        ("g2.1", 1, "default", "three", QueueCause.STOCK_MISSING),
    ]
    assert answer.data[0]["operationID"] == "create-one"
    assert answer.data[0]["queue"]["ahead"] == 0
    assert [one["unit"] for one in api.get(f"{QUEUE}?tenant=other").data] == ["two"]
    assert [one["unit"] for one in api.get(f"{QUEUE}?specName=g2.1").data] == ["three"]
    assert api.get(f"{QUEUE}?specName=unknown").data == []


def test_the_queue_has_pages(api: Api, cluster: FakeCluster) -> None:
    for number in range(3):
        api.post(UNITS, waiting(f"u{number}"))

    first = api.get(f"{QUEUE}?limit=2")
    second = api.get(f"{QUEUE}?limit=2&cursor={first.json['page']['next']}")

    assert [one["unit"] for one in first.data] == ["u0", "u1"]
    assert [one["unit"] for one in second.data] == ["u2"]
    assert second.json["page"]["next"] is None
    assert api.get(f"{QUEUE}?cursor=x").status == 400


@pytest.mark.parametrize(
    ("wait", "field"),
    [
        ({"maxSeconds": 0}, "wait.maxSeconds"),
        ({"maxSeconds": 604_801}, "wait.maxSeconds"),
        ({"maxSeconds": 1.0}, "wait.maxSeconds"),
        ({}, "wait.maxSeconds"),
        (None, "wait"),
        ("600", "wait"),
        ({"maxSeconds": 60, "priority": 1}, "wait.priority"),
    ],
)
def test_an_invalid_wait_is_refused_with_its_path(
    api: Api, cluster: FakeCluster, wait: Any, field: str
) -> None:
    unit_row(UnitPhase.STOPPED, name="trainer", is_suspended=True)

    for refused in (
        api.post(UNITS, body("one", wait=wait)),
        api.post(f"{UNITS}/trainer/start", {"operationID": "s", "wait": wait}),
    ):
        assert (refused.status, refused.fields) == (400, [field])
    assert not CapacityRequest.objects.exists()


def test_a_replay_returns_the_waiting_operation(api: Api, cluster: FakeCluster) -> None:
    api.post(UNITS, waiting("one"))

    replay = api.post(UNITS, waiting("one"))
    other = api.post(UNITS, body("one"))

    assert (replay.status, replay.data["queue"]["position"]) == (200, 1)
    assert (other.status, other.json["error"]["code"]) == (409, "operation_conflict")
    assert CapacityRequest.objects.count() == 1


def test_a_create_needs_no_query_more_than_the_claim(
    api: Api, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "_CONTENDED_UNTIL", {})
    spec_row()
    for _ in range(3):
        stock_row()
    api.post(UNITS, body("first"))

    with CaptureQueriesContext(
        connection,
    ) as queries:
        accepted = api.post(UNITS, body("second"))

    statements = [one["sql"] for one in queries.captured_queries]
    assert accepted.status == 202
    about = [sql for sql in statements if "units_capacityrequest" in sql]
    assert len(about) == 1, "the check is part of the claim"
    assert "FOR UPDATE" in about[0]


def test_an_expired_request_leaves_the_queue(api: Api, cluster: FakeCluster) -> None:
    api.post(UNITS, waiting("one"))
    CapacityRequest.objects.update(expires_at=Now())

    assert api.get(QUEUE).data == []
    assert api.get(f"{UNITS}/one").data["queue"] is None


def test_the_priority_of_a_request_is_limited_by_its_tenant(
    api: Api, cluster: FakeCluster
) -> None:
    refused = api.post(UNITS, {**waiting("one"), "priority": 1})
    Tenant.objects.update(max_priority=50)
    accepted = api.post(UNITS, {**waiting("two"), "priority": 50})
    invalid = [api.post(UNITS, {**waiting("x"), "priority": bad}) for bad in (51, -1, "1", 1.5)]

    assert (refused.status, refused.code) == (400, "invalid_request")
    assert [answer.fields for answer in (refused, *invalid)] == [["priority"]] * 5
    assert accepted.status == 202
    assert CapacityRequest.objects.count() == 1


def test_a_replay_returns_its_operation_after_the_limit_was_lowered(
    api: Api, cluster: FakeCluster
) -> None:
    Tenant.objects.update(max_priority=50)
    body = {**waiting("one"), "priority": 50}
    first = api.post(UNITS, body)
    Tenant.objects.update(max_priority=9)

    replay = api.post(UNITS, body)
    other = api.post(UNITS, {**waiting("two"), "priority": 50})

    assert (first.status, replay.status, other.status) == (202, 200, 400)
    assert replay.data["operationID"] == first.data["operationID"]
    assert (other.fields, CapacityRequest.objects.count()) == (["priority"], 1)


def test_a_higher_priority_is_first_and_a_preemptible_request_is_last(
    api: Api, cluster: FakeCluster
) -> None:
    Tenant.objects.update(max_priority=50)
    api.post(UNITS, {**waiting("last"), "preemptible": True, "priority": 50})
    api.post(UNITS, waiting("second"))
    api.post(UNITS, {**waiting("first"), "priority": 9})

    listed = api.get(QUEUE).data

    found = [(one["unit"], one["priority"], one["preemptible"]) for one in listed]
    assert found == [("first", 9, False), ("second", 0, False), ("last", 50, True)]
    unit = api.get(f"{UNITS}/last").data
    assert (unit["priority"], unit["preemptible"], unit["notice"]) == (50, True, None)


def test_a_waiting_unit_shows_the_gpus_of_its_spec(api: Api, cluster: FakeCluster) -> None:
    spec_row(gpu=4)
    api.post(UNITS, waiting("one"))

    assert api.get(f"{UNITS}/one").data["gpu"] == 4
    assert [one["gpu"] for one in api.get(UNITS).data] == [4]


def test_a_unit_shows_the_notice_of_its_preemption(api: Api, cluster: FakeCluster) -> None:
    api.post(UNITS, waiting("urgent"))
    unit = unit_row(name="victim", is_preemptible=True)
    stops_at = Now() + timedelta(seconds=60)
    notice = PreemptionNotice.objects.create(
        unit=unit, request=CapacityRequest.objects.get(), stops_at=stops_at
    )
    notice.refresh_from_db()

    shown = api.get(f"{UNITS}/victim").data

    assert (shown["phase"], shown["reason"]) == ("Ready", "UnitReady")
    assert parse_rfc3339(shown["notice"]["stopsAt"]) == notice.stops_at


def test_a_preempted_unit_waits_with_its_own_reason(api: Api, cluster: FakeCluster) -> None:
    api.post(UNITS, waiting("one"))
    api.post(UNITS, waiting("two"))
    CapacityRequest.objects.filter(unit__name="one").update(is_after_preemption=True)

    reasons = {one["name"]: one["reason"] for one in api.get(UNITS).data}
    filtered = api.get(f"{UNITS}?reason=Preempted").data

    assert reasons == {"one": "Preempted", "two": "WaitingForCapacity"}
    assert [one["name"] for one in filtered] == ["one"]
