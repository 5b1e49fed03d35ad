"""The routes of GPU units: responses with their headers, and the stored rows."""

import contextlib
import threading
import time
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from pytest_django import DjangoAssertNumQueries

from gpuplatform.api.waiting import RETRY_SECONDS, SEATS
from gpuplatform.clock import parse_rfc3339
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from tests.factories.template_pods import FULL_TEMPLATE
from tests.factories.unit_rows import spec_row, stock_row, unit_row
from tests.fakes.api import UNITS, Answer, Api
from tests.fakes.cluster import FakeCluster
from units.api import waiting
from units.models import GpuUnit, UnitHistory
from units.phases import UnitPhase, UnitReason
from units.selectors import unit_get

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogue")]

BODY: dict[str, Any] = {
    "operationID": "make",
    "name": "trainer",
    "specName": "g1.1",
    "image": "docker.io/library/nginx:1.27",
    "template": {"ports": [{"name": "web", "port": 8080}]},
    "access": {"scheme": "https"},
}

SHAPE = {
    "name", "namespace", "lifecycle", "specName", "specCatalogued", "sourceStockName",
    "sourceStockNamespace",
    "warmStart", "exitCode", "finishedAt",
    "image", "cpu", "memory", "gpu", "resourceName", "resources", "placement", "template",
    "access", "suspended", "phase", "reason", "message", "cause", "readyReplicas", "conditions",
    "generation", "observedGeneration", "uid",
    "createdAt", "deletionTimestamp", "lastSyncTime", "serviceName", "accessURL", "operationID",
    "lastFailure", "avoidedNode", "startSteps", "notice", "queue", "group",
    "priority", "preemptible",
}  # fmt: skip


def test_a_create_claims_stock_and_can_be_read_immediately(api: Api, cluster: FakeCluster) -> None:
    spec_row()
    stock = stock_row()

    answer = api.post(UNITS, BODY)

    assert (answer.status, answer.data["kind"]) == (202, "unit.create")
    assert answer.headers["Location"] == "/api/v1/operations/make"
    assert answer.data["object"]["href"] == f"{UNITS}/trainer"
    assert api.get(answer.headers["Location"]).status == 200
    stock.refresh_from_db()
    assert stock.claimed_by is not None
    unit = api.get(f"{UNITS}/trainer").data
    assert set(unit) == SHAPE
    assert (unit["phase"], unit["uid"], unit["lifecycle"]) == ("Pending", None, "instance")
    assert (unit["memory"], unit["gpu"], unit["operationID"]) == ("64Gi", 1, "make")
    assert unit["access"] == {"primaryPort": "web", "scheme": "https"}


def test_the_steps_of_a_start_and_the_avoided_node_are_returned(
    api: Api, cluster: FakeCluster
) -> None:
    pull = {"step": "ImagePull", "since": "2026-01-31T12:00:00Z", "seconds": 9, "message": "9 B"}
    readiness = {"step": "Readiness", "since": "2026-01-31T12:00:09Z"}
    unit_row(name="trainer", start_steps=[pull, readiness], avoided_node="gpu-node-1")

    unit = api.get(f"{UNITS}/trainer").data

    assert unit["startSteps"] == [pull, {**readiness, "seconds": None, "message": ""}]
    assert unit["avoidedNode"] == "gpu-node-1"


def test_a_template_may_reference_secrets_except_the_platforms(
    api: Api, cluster: FakeCluster
) -> None:
    stock_row()

    def body(name: str) -> dict[str, Any]:
        source = {"secretKeyRef": {"name": name, "key": "token"}}
        return {**BODY, "template": {"envs": [{"name": "HF_TOKEN", "valueFrom": source}]}}

    refused = api.post(UNITS, body("gpu-platform-secrets"))
    accepted = api.post(UNITS, body("hf"))

    assert (refused.status, refused.fields) == (
        400,
        ["template.envs[0].valueFrom.secretKeyRef.name"],
    )
    assert accepted.status == 202
    assert api.get(f"{UNITS}/trainer").data["template"] == body("hf")["template"]


def test_every_field_of_a_template_is_accepted_and_shown_unchanged(
    api: Api, cluster: FakeCluster
) -> None:
    stock_row()

    reply = api.post(UNITS, {**BODY, "template": FULL_TEMPLATE})

    assert reply.status == 202
    assert api.get(f"{UNITS}/trainer").data["template"] == FULL_TEMPLATE


def test_writes_are_replayed_and_conflict(api: Api, cluster: FakeCluster) -> None:
    stock_row()
    stock_row()
    api.post(UNITS, BODY)

    same = api.post(UNITS, {**BODY, "namespace": "runtime-instance"})
    other = api.post(UNITS, {**BODY, "image": "other:1"})
    taken = api.post(UNITS, {**BODY, "operationID": "second"})

    assert (same.status, same.headers["Idempotent-Replayed"]) == (200, "true")
    assert (other.status, other.code) == (409, "operation_conflict")
    assert (taken.status, taken.code) == (409, "name_conflict")
    assert GpuUnit.objects.filter(claimed_by__isnull=False).count() == 1


def test_without_ready_stock_nothing_is_left(api: Api, cluster: FakeCluster) -> None:
    stock_row(UnitPhase.PROGRESSING)
    stock_row(spec_name="other")

    answer = api.post(UNITS, BODY)

    assert (answer.status, answer.code) == (409, "insufficient_capacity")
    assert not Operation.objects.exists()
    assert not GpuUnit.objects.filter(name="trainer").exists()


def test_stock_is_not_listed_as_units(api: Api, cluster: FakeCluster) -> None:
    stock = stock_row(name="stock-a")

    assert api.get(UNITS).data == []
    assert api.get(UNITS, namespace="runtime-stock").data == []
    for path in ("", "/logs", "/events", "/history"):
        assert api.get(f"{UNITS}/{stock.name}{path}").status == 404
        assert api.get(f"{UNITS}/{stock.name}{path}", namespace="runtime-stock").status == 404
    assert api.delete(f"{UNITS}/{stock.name}", operationID="d").status == 404
    assert not Operation.objects.exists()


@pytest.mark.parametrize("path", ["", "/logs", "/events", "/history"])
def test_another_namespace_has_no_units(api: Api, cluster: FakeCluster, path: str) -> None:
    unit_row(name="a")

    assert api.get(f"{UNITS}/a{path}", namespace="elsewhere").status == 404
    assert api.delete(f"{UNITS}/a", operationID="d", namespace="elsewhere").status == 404
    assert api.get(f"{UNITS}/a", namespace="runtime-instance").status == 200
    assert not Operation.objects.exists()


def test_a_unit_is_changed_stopped_started_and_deleted(api: Api, cluster: FakeCluster) -> None:
    unit_row(name="a")
    stock_row()

    changed = api.put(f"{UNITS}/a", {"operationID": "put", "image": "other:1"})
    stopped = api.post(f"{UNITS}/a/stop", {"operationID": "stop"})
    started = api.post(f"{UNITS}/a/start", {"operationID": "start"})
    deleted = api.delete(f"{UNITS}/a", operationID="del")

    answers = (changed, stopped, started, deleted)
    assert [answer.status for answer in answers] == [202] * 4
    kinds = ["unit.update", "unit.stop", "unit.start", "unit.delete"]
    assert [answer.data["kind"] for answer in answers] == kinds
    assert api.get(f"{UNITS}/a").data["phase"] == "Terminating"
    assert api.post(f"{UNITS}/a/stop", {"operationID": "stop"}).status == 200
    assert api.post(f"{UNITS}/a/stop", {"operationID": "late"}).code == "phase_conflict"


def test_a_change_requires_the_version_of_if_match(api: Api, cluster: FakeCluster) -> None:
    unit = unit_row(name="a", generation=3)
    etag = api.get(f"{UNITS}/a").headers["ETag"]
    change = {"operationID": "put", "image": "other:1"}

    stale = api.put(f"{UNITS}/a", change, HTTP_IF_MATCH=f'"{unit.uid}-2"')
    fresh = api.put(f"{UNITS}/a", change, HTTP_IF_MATCH=etag)

    assert etag == f'"{unit.uid}-3"'
    assert (stale.status, stale.code) == (412, "stale_etag")
    assert fresh.status == 202
    assert Operation.objects.count() == 1
    any_ = api.put(f"{UNITS}/a", {**change, "operationID": "any"}, HTTP_IF_MATCH="*")
    assert any_.status == 202


def test_of_two_changes_of_one_version_the_second_is_refused(
    api: Api, cluster: FakeCluster
) -> None:
    unit_row(name="a")
    etag = api.get(f"{UNITS}/a").headers["ETag"]

    answers = [
        api.put(f"{UNITS}/a", {"operationID": key, "image": "other:1"}, HTTP_IF_MATCH=etag)
        for key in ("first", "second", "first")
    ]

    assert [answer.status for answer in answers] == [202, 412, 200]
    assert answers[1].code == "stale_etag"


@pytest.mark.parametrize("header", ["", "abc", 'W/"a"', '"a", "b"', '"', '"é"', '""'])
def test_an_invalid_if_match_is_a_400(api: Api, cluster: FakeCluster, header: str) -> None:
    unit_row(name="a")
    change = {"operationID": "put", "image": "other:1"}

    answer = api.put(f"{UNITS}/a", change, HTTP_IF_MATCH=header)

    assert (answer.status, answer.fields) == (400, ["If-Match"])
    assert not Operation.objects.exists()


def test_a_unit_without_its_resource_has_no_etag(api: Api) -> None:
    unit_row(UnitPhase.PENDING, name="a", uid="")

    assert "ETag" not in api.get(f"{UNITS}/a").headers


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"operationID": None}, "operationID"),
        ({"name": "A"}, "name"),
        ({"name": "a.b"}, "name"),
        ({"name": "a" * 59}, "name"),
        ({"specName": ""}, "specName"),
        ({"image": "UPPER/x"}, "image"),
        ({"image": None}, "image"),
        ({"namespace": "other"}, "namespace"),
        ({"namespace": "runtime-stock"}, "namespace"),
        ({"stockNamespace": "default"}, "stockNamespace"),
        ({"stockName": "A"}, "stockName"),
        ({"access": {"primaryPort": "no"}}, "access.primaryPort"),
        ({"access": {"scheme": "gopher"}}, "access.scheme"),
        ({"access": []}, "access"),
        ({"template": {"ports": [{"name": "web", "port": 0}]}}, "template.ports[0].port"),
        ({"template": {"envs": [{"name": "NVIDIA_VISIBLE_DEVICES"}]}}, "template.envs[0].name"),
        ({"template": {"restart": "sometimes"}}, "template.restart"),
        ({"template": {"restart": None}}, "template.restart"),
        ({"memory": "1Gi"}, "memory"),
        ({"gpu": 2}, "gpu"),
    ],
    ids=str,
)
def test_bad_input_names_the_field_and_leaves_nothing(
    api: Api, cluster: FakeCluster, change: dict[str, Any], field: str
) -> None:
    stock = stock_row()

    answer = api.post(UNITS, {**BODY, **change})

    assert (answer.status, answer.code) == (400, "invalid_request")
    assert answer.fields == [field]
    assert not Operation.objects.exists()
    stock.refresh_from_db()
    assert stock.claimed_by is None


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({}, ""),
        ({"image": None}, "image"),
        ({"template": None}, "template"),
        ({"access": None}, "access"),
        ({"access": {"primaryPort": "no"}}, "access.primaryPort"),
        ({"specName": "other"}, "specName"),
        ({"name": "b"}, "name"),
    ],
    ids=str,
)
def test_a_bad_change_names_the_field_and_leaves_nothing(
    api: Api, cluster: FakeCluster, change: dict[str, Any], field: str
) -> None:
    unit_row(name="a")

    answer = api.put(f"{UNITS}/a", {"operationID": "put", **change})

    assert (answer.status, answer.code) == (400, "invalid_request")
    assert answer.fields == [field]
    assert not Operation.objects.exists()


def test_an_invalid_template_can_be_replaced(api: Api, cluster: FakeCluster) -> None:
    """Clients of the cluster can write specs that only the platform rejects."""
    template = {"envs": [{"name": "A"}, {"name": "A"}]}
    unit_row(name="a", spec={"specName": "g1.1", "gpu": 1, "template": template})

    kept = api.put(f"{UNITS}/a", {"operationID": "one", "image": "a:1"})
    replaced = api.put(f"{UNITS}/a", {"operationID": "two", "template": {}})

    assert (kept.status, kept.fields) == (400, ["template.envs[1].name"])
    assert replaced.status == 202


def _everything(api: Api, name: str) -> list[Answer]:
    path = f"{UNITS}/{name}"
    action, change = b'{"operationID":"x"}', b'{"operationID":"x","image":"a:1"}'
    return [
        api.send("GET", path, b""),
        api.send("GET", f"{path}/logs", b""),
        api.send("GET", f"{path}/events", b""),
        api.send("GET", f"{path}/history", b""),
        api.send("PUT", path, change),
        api.send("POST", f"{path}/stop", action),
        api.send("POST", f"{path}/start", action),
        api.send("DELETE", f"{path}?operationID=x", b""),
    ]


@pytest.mark.parametrize("name", ["no", "A", "%00", "a%2Fb", "a" * 300, "é", "%FF", "-a"])
def test_a_missing_object_is_a_404_and_leaves_no_operation(
    api: Api, cluster: FakeCluster, name: str
) -> None:
    answers = _everything(api, name)

    assert {(answer.status, answer.code) for answer in answers} == {(404, "not_found")}
    assert not Operation.objects.exists()


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("", {"limit": "0"}),
        ("", {"phase": "ready"}),
        ("", {"namespace": "A"}),
        ("", {"cursor": "zzz"}),
        ("", {"search": "\x00"}),
        ("", {"state": "ready"}),
        ("/a", {"wait": "gone"}),
        ("/a", {"timeout": "61", "wait": "ready"}),
        ("/a", {"timeout": "x", "wait": "ready"}),
        ("/a", {"timeout": "5"}),
        ("/a/logs", {"tail": "0"}),
        ("/a/logs", {"tail": "5001"}),
        ("/a/logs", {"previous": "yes"}),
        ("/a/logs", {"container": "A"}),
        ("/a/events", {"cursor": "MS4x"}),
        ("/a/history", {"limit": "201"}),
    ],
    ids=str,
)
def test_an_invalid_query_is_a_400(
    api: Api, cluster: FakeCluster, path: str, query: dict[str, str]
) -> None:
    unit_row(name="a")

    answer = api.get(f"{UNITS}{path}", **query)

    assert (answer.status, answer.code) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("method", "path"),
    [("DELETE", ""), ("PATCH", "/a"), ("POST", "/a"), ("GET", "/a/stop"), ("PUT", "/a/start"),
     ("POST", "/a/logs"), ("DELETE", "/a/history")],
)  # fmt: skip
def test_a_wrong_method_is_the_envelope(api: Api, method: str, path: str) -> None:
    answer = api.send(method, f"{UNITS}{path}", b"{}")

    assert (answer.status, answer.code) == (405, "method_not_allowed")


def test_lists_are_filtered(api: Api) -> None:
    unit_row(name="a-ready")
    unit_row(UnitPhase.FAILED, name="b-failed", spec_name="g2.1")
    unit_row(name="elsewhere", namespace="tenant-x")
    unit_row(name="gone", deleted_at=Now())

    def names(**query: str) -> list[str]:
        return [unit["name"] for unit in api.get(UNITS, **query).data]

    assert names() == ["b-failed", "a-ready"]
    assert names(phase="Ready") == ["a-ready"]
    assert names(reason="PodStartupFailed") == names(specName="g2.1") == ["b-failed"]
    assert names(search="fail") == ["b-failed"]
    assert names(search="%") == names(namespace="tenant-x") == []


def test_a_unit_whose_source_was_claimed_for_its_node_starts_warm(api: Api) -> None:
    stock = stock_row(is_warm_start=True)
    unit_row(name="warm", source_name=stock.name, source_uid=stock.uid)
    unit_row(name="cold")

    found = {unit["name"]: unit["warmStart"] for unit in api.get(UNITS).data}

    assert found == {"warm": True, "cold": False}
    assert api.get(f"{UNITS}/warm").data["warmStart"]


def test_reading_costs_few_queries(
    api: Api, cluster: FakeCluster, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    units = [unit_row() for _ in range(20)]
    for _ in range(20):
        UnitHistory.objects.create(unit=units[0], phase="Ready")

    with django_assert_max_num_queries(5):
        assert len(api.get(UNITS).data) == 20
    with django_assert_max_num_queries(5):
        api.get(f"{UNITS}/{units[0].name}")
    with django_assert_max_num_queries(5):
        assert len(api.get(f"{UNITS}/{units[0].name}/history").data) == 20


def test_malformed_content_of_a_resource_is_null(api: Api) -> None:
    odd = {"template": {"ports": "none"}, "access": 5, "image": "x"}
    unit_row(name="a", spec=odd, conditions=[1, {"type": 1}, {"type": "Ready", "status": "True"}])
    unit_row(name="b", spec={"template": [1], "access": {}}, conditions={"a": 1})

    found = {unit["name"]: unit for unit in api.get(UNITS).data}

    assert found["a"]["access"] == {"primaryPort": None, "scheme": "http"}
    assert [one["type"] for one in found["a"]["conditions"]] == ["Ready"]
    assert found["b"]["conditions"] == []


def test_history_is_newest_first_with_its_operations(api: Api) -> None:
    unit = unit_row(name="a")
    UnitHistory.objects.create(unit=unit, phase="Progressing", reason="UnitProgressing")
    UnitHistory.objects.create(unit=unit, phase="Ready", reason="UnitReady", message="m")

    first = api.get(f"{UNITS}/a/history", limit="1").json

    assert first["data"][0]["phase"] == "Ready"
    assert set(first["data"][0]) == {"at", "phase", "reason", "message", "cause", "operationID"}
    rest = api.get(f"{UNITS}/a/history", cursor=first["page"]["next"]).data
    assert [row["phase"] for row in rest] == ["Progressing"]


def test_an_ended_unit_has_an_exit_code_and_no_url(api: Api) -> None:
    unit_row(
        UnitPhase.FAILED,
        name="a",
        reason=UnitReason.PROGRAM_FAILED,
        is_ended=True,
        exit_code=3,
        finished_at=parse_rfc3339("2026-01-31T13:00:00Z"),
    )
    unit_row(name="b")

    found = api.get(f"{UNITS}/a", wait="ready", timeout="60").data

    assert (found["phase"], found["exitCode"], found["accessURL"]) == ("Failed", 3, None)
    assert found["finishedAt"] == "2026-01-31T13:00:00Z"
    running = api.get(f"{UNITS}/b").data
    assert (running["exitCode"], running["finishedAt"]) == (None, None)
    assert [one["name"] for one in api.get(UNITS, phase="Failed").data] == ["a"]


class TestWaiting:
    def test_a_ready_unit_is_returned_immediately(self, api: Api) -> None:
        unit_row(name="a")

        assert api.get(f"{UNITS}/a", wait="ready", timeout="60").data["phase"] == "Ready"

    def test_the_wait_ends_after_the_timeout(self, api: Api) -> None:
        unit_row(UnitPhase.PROGRESSING, name="a")

        answer = api.get(f"{UNITS}/a", wait="ready", timeout="1")

        assert (answer.status, answer.data["phase"]) == (200, "Progressing")

    def test_a_tenant_without_a_free_seat_gets_the_reply_immediately(self, api: Api) -> None:
        unit = unit_row(UnitPhase.PROGRESSING, name="a")
        assert unit.tenant is not None

        with contextlib.ExitStack() as waits:
            for _ in range(SEATS.number_of_tenant):
                assert waits.enter_context(SEATS.seat(unit.tenant.pk))
            answer = api.get(f"{UNITS}/a", wait="ready", timeout="60")

        assert answer.data["phase"] == "Progressing"
        assert answer.headers["Retry-After"] == str(RETRY_SECONDS)
        assert "Retry-After" not in api.get(f"{UNITS}/a").headers

    def test_a_tenant_that_occupies_its_seats_leaves_seats_to_others(self, api: Api) -> None:
        unit = unit_row(UnitPhase.PROGRESSING, name="a")
        assert unit.tenant is not None

        with contextlib.ExitStack() as waits:
            for _ in range(SEATS.number):
                waits.enter_context(SEATS.seat(unit.tenant.pk + 1))
            answer = api.get(f"{UNITS}/a", wait="ready", timeout="1")

        assert (answer.status, "Retry-After" in answer.headers) == (200, False)

    def test_the_log_needs_a_seat(self, api: Api) -> None:
        unit = unit_row(name="a")
        assert unit.tenant is not None

        with contextlib.ExitStack() as waits:
            for _ in range(SEATS.number_of_tenant):
                assert waits.enter_context(SEATS.seat(unit.tenant.pk))
            answer = api.get(f"{UNITS}/a/logs")

        assert (answer.status, answer.code) == (429, "throttled")
        assert answer.headers["Retry-After"] == str(RETRY_SECONDS)

    def test_a_unit_with_an_accepted_change_is_not_ready_yet(
        self, api: Api, cluster: FakeCluster
    ) -> None:
        unit_row(name="a")
        assert api.put(f"{UNITS}/a", {"operationID": "o-1", "image": "busybox:2"}).status == 202
        begun = time.monotonic()

        answer = api.get(f"{UNITS}/a", wait="ready", timeout="1")

        assert answer.status == 200
        assert time.monotonic() - begun >= 1
        Operation.objects.update(phase=OperationPhase.SUCCEEDED, due_at=None, ended_at=Now())
        begun = time.monotonic()
        api.get(f"{UNITS}/a", wait="ready", timeout="60")
        assert time.monotonic() - begun < 30

    def test_waiting_ends_for_a_unit_that_is_being_deleted(self, api: Api) -> None:
        unit_row(UnitPhase.TERMINATING, name="a")

        assert api.get(f"{UNITS}/a", wait="ready", timeout="60").data["phase"] == "Terminating"


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_the_wait_ends_when_the_unit_gets_ready(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = unit_row(UnitPhase.PROGRESSING, name="a")
    waits = threading.Event()
    answers: list[Answer] = []

    def ask() -> None:
        answers.append(api.get(f"{UNITS}/a", wait="ready", timeout="60"))
        connection.close()

    def looked(namespace: str, name: str) -> GpuUnit:
        waits.set()
        return unit_get(namespace, name)

    monkeypatch.setattr(waiting, "unit_get", looked)
    thread = threading.Thread(target=ask)
    thread.start()
    assert waits.wait(30)
    GpuUnit.objects.filter(pk=unit.pk).update(phase=UnitPhase.READY)
    thread.join(30)

    assert answers[0].data["phase"] == "Ready"
