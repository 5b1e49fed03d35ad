"""The routes of functions: replies and effects."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from pytest_django import DjangoAssertNumQueries

from gpuplatform.operations.models import Operation
from serverless.models import Function, Invocation
from tests.factories.serverless import accept, function_row, tenant_row
from tests.factories.template_pods import FULL_TEMPLATE
from tests.factories.unit_rows import spec_row
from tests.fakes.api import Api

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogue", "cluster")]

FUNCTIONS = "/api/v1/serverless/functions"
BODY: dict[str, Any] = {
    "operationID": "make-echo",
    "requestID": "echo",
    "specName": "g1.1",
    "image": "registry.example/echo:1",
    "maxWorkers": 2,
}
SHAPE = {
    "requestID", "specName", "image", "template", "framework", "minWorkers", "maxWorkers",
    "concurrency", "idleTimeoutSeconds", "timeoutSeconds", "expiresInSeconds",
    "onDone",
    "maxDeliver", "backoffSeconds", "generation", "phase", "reason", "message", "cause",
    "backlog", "oldestPendingSeconds",
    "workers", "createdAt", "updatedAt", "observedAt", "operationID",
}  # fmt: skip


def test_created_function_can_be_read_immediately(api: Api) -> None:
    answer = api.post(FUNCTIONS, BODY)

    assert (answer.status, answer.data["kind"]) == (202, "function.create")
    assert answer.data["object"]["href"] == f"{FUNCTIONS}/echo"
    shown = api.get(f"{FUNCTIONS}/echo").data
    assert set(shown) == SHAPE
    assert (shown["phase"], shown["maxWorkers"], shown["minWorkers"]) == ("Pending", 2, 0)
    assert shown["framework"]["invokePath"] == "/invoke"
    assert shown["backoffSeconds"] == [2, 10, 30]
    assert shown["workers"] == {"ready": 0, "starting": 0, "draining": 0}
    assert (shown["backlog"], shown["oldestPendingSeconds"]) == (0, None)


def test_template_may_reference_secrets_except_worker_credentials(api: Api) -> None:
    def body(name: str) -> dict[str, Any]:
        source = {"secretKeyRef": {"name": name, "key": "queue.creds"}}
        return {**BODY, "template": {"envs": [{"name": "TOKEN", "valueFrom": source}]}}

    refused = api.post(FUNCTIONS, body("fn-12-queue"))
    accepted = api.post(FUNCTIONS, body("hf"))

    assert (refused.status, refused.fields) == (
        400,
        ["template.envs[0].valueFrom.secretKeyRef.name"],
    )
    assert accepted.status == 202
    assert api.get(f"{FUNCTIONS}/echo").data["template"] == body("hf")["template"]


def test_every_field_of_a_template_is_accepted_and_shown_unchanged(api: Api) -> None:
    reply = api.post(FUNCTIONS, {**BODY, "template": FULL_TEMPLATE})

    assert reply.status == 202
    assert api.get(f"{FUNCTIONS}/echo").data["template"] == FULL_TEMPLATE


def test_writes_are_replayed_and_conflict(api: Api) -> None:
    api.post(FUNCTIONS, BODY)

    same = api.post(FUNCTIONS, BODY)
    other = api.post(FUNCTIONS, {**BODY, "maxWorkers": 3})
    taken = api.post(FUNCTIONS, {**BODY, "operationID": "second"})

    assert (same.status, same.headers["Idempotent-Replayed"]) == (200, "true")
    assert (other.status, other.code) == (409, "operation_conflict")
    assert (taken.status, taken.code) == (409, "name_conflict")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"requestID": "Echo"}, "requestID"),
        ({"requestID": "e" * 49}, "requestID"),
        ({"minWorkers": 3}, "minWorkers"),
        ({"expiresInSeconds": 7 * 24 * 3600 + 1}, "expiresInSeconds"),
        ({"framework": {"socketPath": "/etc/passwd"}}, "framework.socketPath"),
        ({"serverless": {}}, "serverless"),
    ],
)
def test_invalid_body_is_rejected_by_field(api: Api, change: dict[str, Any], field: str) -> None:
    answer = api.post(FUNCTIONS, {**BODY, **change})

    assert (answer.status, answer.fields) == (400, [field])
    assert not Function.objects.exists()


def test_put_changes_spec(api: Api) -> None:
    api.post(FUNCTIONS, BODY)
    change = {
        "operationID": "change",
        "specName": "g1.1",
        "image": "registry.example/echo:2",
        "expiresInSeconds": 60,
    }

    answer = api.put(f"{FUNCTIONS}/echo", change)

    assert (answer.status, answer.data["kind"]) == (202, "function.update")
    shown = api.get(f"{FUNCTIONS}/echo").data
    assert (shown["image"], shown["expiresInSeconds"]) == ("registry.example/echo:2", 60)
    assert shown["maxWorkers"] == BODY["maxWorkers"]
    assert shown["generation"] == 2


@pytest.mark.parametrize("is_known", [False, True], ids=["unknown", "disabled"])
def test_put_of_an_unavailable_spec_changes_nothing(api: Api, is_known: bool) -> None:
    api.post(FUNCTIONS, BODY)
    if is_known:
        spec_row("other", is_enabled=False)

    answer = api.put(f"{FUNCTIONS}/echo", {"operationID": "change", "specName": "other"})

    assert (answer.status, answer.fields) == (400, ["specName"])
    assert api.get(f"{FUNCTIONS}/echo").data["generation"] == 1
    assert not Operation.objects.filter(operation_id="change").exists()


def test_a_function_of_a_disabled_spec_can_be_changed(api: Api) -> None:
    api.post(FUNCTIONS, BODY)
    spec_row(is_enabled=False)
    same = {"operationID": "change", "specName": BODY["specName"], "image": "echo:2"}

    assert api.put(f"{FUNCTIONS}/echo", same).status == 202


def test_an_update_replaces_given_blocks_and_keeps_omitted_ones(api: Api) -> None:
    template = {"envs": [{"name": "MODEL", "value": "a"}]}
    api.post(FUNCTIONS, {**BODY, "template": template, "maxDeliver": 3, "backoffSeconds": [1, 2]})

    api.put(f"{FUNCTIONS}/echo", {"operationID": "one", "timeoutSeconds": 7})
    kept = api.get(f"{FUNCTIONS}/echo").data
    api.put(f"{FUNCTIONS}/echo", {"operationID": "two", "template": {}})
    cleared = api.get(f"{FUNCTIONS}/echo").data

    assert (kept["template"], kept["timeoutSeconds"]) == (template, 7)
    assert (kept["maxDeliver"], kept["backoffSeconds"]) == (3, [1, 2])
    assert (cleared["template"], cleared["timeoutSeconds"]) == (None, 7)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        pytest.param({"template": None}, "template", id="null"),
        pytest.param({"maxWorkers": 0}, "maxWorkers", id="bound"),
        pytest.param({"minWorkers": 99}, "minWorkers", id="contradicts what stays"),
        pytest.param({}, "", id="nothing"),
    ],
)
def test_an_invalid_update_names_the_field(api: Api, change: dict[str, Any], field: str) -> None:
    api.post(FUNCTIONS, BODY)

    answer = api.put(f"{FUNCTIONS}/echo", {"operationID": "change", **change})

    assert (answer.status, answer.fields) == (400, [field])


def test_a_template_of_an_earlier_release_can_be_replaced(api: Api) -> None:
    row = function_row("echo")
    invalid = {"envs": [{"name": "AMD_VISIBLE_DEVICES", "value": "all"}]}
    Function.objects.filter(pk=row.pk).update(spec={**row.spec, "template": invalid})

    assert [one["requestID"] for one in api.get(FUNCTIONS).data] == ["echo"]
    assert api.get(f"{FUNCTIONS}/echo").status == 200
    body = {"requestID": "echo", "payload": "hello"}
    assert api.post("/api/v1/serverless/invocations", body).status == 202
    kept = api.put(f"{FUNCTIONS}/echo", {"operationID": "one", "timeoutSeconds": 7})
    assert (kept.status, kept.fields) == (400, ["template.envs[0].name"])
    replaced = api.put(f"{FUNCTIONS}/echo", {"operationID": "two", "template": {}})
    assert replaced.status == 202


def test_of_two_updates_of_one_version_the_second_is_rejected(api: Api) -> None:
    api.post(FUNCTIONS, BODY)
    etag = api.get(f"{FUNCTIONS}/echo").headers["ETag"]

    answers = [
        api.put(
            f"{FUNCTIONS}/echo",
            {"operationID": key, "timeoutSeconds": 7},
            HTTP_IF_MATCH=etag,
        )
        for key in ("first", "second", "first")
    ]

    assert [answer.status for answer in answers] == [202, 412, 200]


def test_deleted_function_is_shown_until_it_is_deleted(api: Api) -> None:
    function_row("echo")

    assert api.send("DELETE", f"{FUNCTIONS}/echo?operationID=drop", b"").status == 202
    assert api.get(f"{FUNCTIONS}/echo").data["phase"] == "Terminating"

    Function.objects.update(deleted_at=Now())
    assert api.get(f"{FUNCTIONS}/echo").status == 404
    assert api.get(FUNCTIONS).data == []


def test_a_function_that_is_being_deleted_explains_what_its_deletion_waits_for(api: Api) -> None:
    function_row("echo")
    api.send("DELETE", f"{FUNCTIONS}/echo?operationID=drop", b"")
    shown = api.get(f"{FUNCTIONS}/echo").data
    operation = api.get("/api/v1/operations/drop").data

    assert shown["reason"] == ""
    assert shown["message"].endswith(operation["waiting"]["message"])
    assert [one["message"] for one in api.get(FUNCTIONS).data] == [shown["message"]]


def test_objects_of_another_tenant_are_not_found(api: Api) -> None:
    function_row("theirs", tenant=tenant_row("other"))

    assert api.get(FUNCTIONS).data == []
    assert api.get(f"{FUNCTIONS}/theirs").status == 404
    assert api.put(f"{FUNCTIONS}/theirs", {**BODY, "requestID": "theirs"}).status == 404
    assert api.send("DELETE", f"{FUNCTIONS}/theirs?operationID=drop", b"").status == 404
    assert not Operation.objects.filter(kind="function.delete").exists()


def test_backlog_and_age_of_oldest_agree(api: Api) -> None:
    function = function_row("echo")
    accept(function)
    oldest = Invocation.objects.get()
    Invocation.objects.update(accepted_at=oldest.accepted_at - timedelta(minutes=5))
    accept(function)

    shown = api.get(f"{FUNCTIONS}/echo").data
    assert shown["backlog"] == 1  # Not observed yet, but at least the oldest one is open.
    assert 300 <= shown["oldestPendingSeconds"] < 400

    Function.objects.update(backlog=2)
    Invocation.objects.update(state="Cancelled", completed_at=oldest.accepted_at)
    shown = api.get(f"{FUNCTIONS}/echo").data
    assert (shown["backlog"], shown["oldestPendingSeconds"]) == (0, None)


def test_list_has_pages_filters_and_few_queries(
    api: Api, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for name in ("a1", "a2", "b1"):
        function_row(name)

    first = api.get(FUNCTIONS, limit=2)
    with django_assert_max_num_queries(4):
        rest = api.get(FUNCTIONS, limit=2, cursor=first.json["page"]["next"])

    assert [row["requestID"] for row in first.data] == ["b1", "a2"]
    assert [row["requestID"] for row in rest.data] == ["a1"]
    assert [row["requestID"] for row in api.get(FUNCTIONS, search="b").data] == ["b1"]
    assert api.get(FUNCTIONS, phase="Failed").data == []
