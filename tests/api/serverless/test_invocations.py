"""The routes of invocations: replies, waiting, limits, and signed links."""

import base64
import contextlib
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from gpuplatform import clock
from gpuplatform.api.connection import IS_DISCONNECTED_KEY
from gpuplatform.api.opaque import opaque
from gpuplatform.api.waiting import RETRY_SECONDS, SEATS
from gpuplatform.tenancy.models import Scope
from gpuplatform.tenancy.services import token_create
from gpuplatform.workloads.causes import StartupCause
from serverless.api import waiting
from serverless.models import Function, Invocation
from serverless.phases import InvocationState
from serverless.services import invocations
from serverless.services.invocations import MAX_OPEN
from tests.factories.serverless import accept, function_row, tenant_row
from tests.fakes.api import Api

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("cluster")]

INVOCATIONS = "/api/v1/serverless/invocations"
BODY: dict[str, Any] = {"invocationID": "one", "requestID": "echo", "payload": '{"a": 1}'}
SHAPE = {
    "invocationID", "requestID", "mode", "state", "failureClass", "attempts", "worker",
    "acceptedAt", "expiresAt", "startedAt", "completedAt", "result", "error", "blocked",
    "webhook",
}  # fmt: skip
RESULT = {
    "statusCode", "contentType", "headers", "body", "bodyEncoding", "bodyBytes", "truncated",
    "href",
}  # fmt: skip


def end(body: bytes = b"hello", **changes: Any) -> Invocation:
    """End the only invocation as the result store does."""
    row = Invocation.objects.get()
    columns: dict[str, Any] = {
        "state": InvocationState.SUCCEEDED,
        "attempts": 1,
        "worker": "fn-1-1-0123abcd",
        "started_at": row.accepted_at,
        "completed_at": row.accepted_at,
        "status_code": 200,
        "result_content_type": "text/plain",
        "result_body": body,
        "result_bytes": len(body),
        **changes,
    }
    Invocation.objects.filter(pk=row.pk).update(**columns)
    row.refresh_from_db()
    return row


def test_accepted_invocation_can_be_read(api: Api) -> None:
    function_row("echo")

    answer = api.post(INVOCATIONS, BODY)

    assert answer.status == 202
    assert answer.headers["Location"] == f"{INVOCATIONS}/one"
    shown = api.get(answer.headers["Location"]).data
    assert answer.data == shown
    assert set(shown) == SHAPE
    assert (shown["state"], shown["mode"], shown["result"]) == ("Queued", "async", None)
    assert (shown["worker"], shown["error"], shown["failureClass"]) == (None, None, None)
    end()
    ended = api.get(f"{INVOCATIONS}/one").data
    assert set(ended["result"]) == RESULT
    assert (ended["result"]["body"], ended["result"]["bodyEncoding"]) == ("hello", "text")


def test_queued_invocation_shows_why_function_is_blocked(api: Api) -> None:
    function_row("echo")
    api.post(INVOCATIONS, BODY)
    cause = StartupCause.IMAGE_PULL_FAILED
    Function.objects.update(phase="Failed", reason="WorkerFailed", cause=cause, message="No.")

    blocked = api.get(f"{INVOCATIONS}/one").data["blocked"]
    function = api.get("/api/v1/serverless/functions/echo").data

    assert (blocked["reason"], blocked["cause"]) == ("WorkerFailed", cause)
    assert (blocked["message"], blocked["since"] is not None) == ("No.", True)
    assert function["cause"] == cause
    Function.objects.update(phase="Ready", reason="Serving", cause="")
    assert api.get(f"{INVOCATIONS}/one").data["blocked"] is None
    Function.objects.update(phase="Failed", reason="WorkerFailed")
    end()
    assert api.get(f"{INVOCATIONS}/one").data["blocked"] is None


def test_expiry_is_shown_and_of_same_request(api: Api) -> None:
    function_row("echo")
    body = {**BODY, "expiresInSeconds": 60}

    accepted = api.post(INVOCATIONS, body)

    row = Invocation.objects.get()
    expires_at = datetime.fromisoformat(accepted.data["expiresAt"])
    assert expires_at - row.accepted_at == timedelta(seconds=60)
    assert api.post(INVOCATIONS, body).data["expiresAt"] == accepted.data["expiresAt"]
    assert api.post(INVOCATIONS, BODY).code == "operation_conflict"


@pytest.mark.parametrize("seconds", [-1, 7 * 24 * 3600 + 1, 1.5, "60", True])
def test_invalid_expiry_is_rejected(api: Api, seconds: object) -> None:
    function_row("echo")

    answer = api.post(INVOCATIONS, {**BODY, "expiresInSeconds": seconds})

    assert (answer.status, answer.fields) == (400, ["expiresInSeconds"])
    assert not Invocation.objects.exists()


def test_omitted_id_is_generated(api: Api) -> None:
    function_row("echo")

    answer = api.post(INVOCATIONS, {"requestID": "echo", "payload": ""})

    assert len(answer.data["invocationID"]) == len("inv-") + 32


def test_repeated_request_is_replayed_and_another_payload_conflicts(api: Api) -> None:
    function_row("echo")
    api.post(INVOCATIONS, BODY)

    same = api.post(INVOCATIONS, BODY)
    other = api.post(INVOCATIONS, {**BODY, "payload": "b"})

    assert (same.status, same.headers["Idempotent-Replayed"]) == (200, "true")
    assert (other.status, other.code) == (409, "operation_conflict")
    assert Invocation.objects.count() == 1


@pytest.mark.parametrize("encoding", ["text", "base64"])
def test_too_large_payload_is_rejected(api: Api, encoding: str) -> None:
    function_row("echo")
    payload = "a" * (512 * 1024 + 1)
    if encoding == "base64":
        payload = base64.b64encode(payload.encode()).decode()

    answer = api.post(INVOCATIONS, {**BODY, "payload": payload, "payloadEncoding": encoding})

    assert (answer.status, answer.code) == (413, "too_large")
    assert not Invocation.objects.exists()


def test_too_many_open_invocations_get_retry_after(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invocations, "MAX_OPEN", 1)
    accept(function_row("echo"))

    answer = api.post(INVOCATIONS, BODY)

    assert (answer.status, answer.code) == (429, "throttled")
    assert answer.headers["Retry-After"] == "5"
    assert MAX_OPEN > 1


def test_invocation_of_missing_function_is_not_found(api: Api) -> None:
    function_row("echo", tenant=tenant_row("other"))

    assert api.post(INVOCATIONS, BODY).status == 404


def test_objects_of_another_tenant_are_not_found(api: Api) -> None:
    accept(function_row("echo", tenant=tenant_row("other")), invocationID="theirs")

    assert api.get(INVOCATIONS).data == []
    assert api.get(f"{INVOCATIONS}/theirs").status == 404
    for action in ("cancel", "replay"):
        assert api.post(f"{INVOCATIONS}/theirs/{action}", {"operationID": "x"}).status == 404


def test_list_has_no_bodies_and_few_queries(
    api: Api, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    function = function_row("echo")
    accept(function, invocationID="one")
    end()
    accept(function, invocationID="two")
    accept(function_row("other"), invocationID="three")

    with django_assert_max_num_queries(4):
        rows = api.get(INVOCATIONS, requestID="echo").data

    assert [row["invocationID"] for row in rows] == ["two", "one"]
    assert (rows[1]["result"]["body"], rows[1]["result"]["bodyBytes"]) == (None, 5)
    assert [row["invocationID"] for row in api.get(INVOCATIONS, state="Succeeded").data] == ["one"]


def test_cancel_and_replay_return_operations(api: Api) -> None:
    accept(function_row("echo"), invocationID="one")

    early = api.post(f"{INVOCATIONS}/one/replay", {"operationID": "r-1"})
    cancelled = api.post(f"{INVOCATIONS}/one/cancel", {"operationID": "c-1"})
    late = api.post(f"{INVOCATIONS}/one/cancel", {"operationID": "c-2"})
    assert (early.status, early.code) == (409, "phase_conflict")
    assert (cancelled.status, cancelled.data["object"]["href"]) == (202, f"{INVOCATIONS}/one")
    assert (late.status, late.code) == (409, "phase_conflict")
    assert api.get(f"{INVOCATIONS}/one").data["state"] == "Cancelled"

    assert api.post(f"{INVOCATIONS}/one/replay", {"operationID": "r-2"}).status == 409
    for state in (InvocationState.DEAD_LETTERED, InvocationState.FAILED, InvocationState.EXPIRED):
        end(state=state)
        replayed = api.post(f"{INVOCATIONS}/one/replay", {"operationID": f"r-{state}"})
        assert replayed.status == 202
        shown = api.get(f"{INVOCATIONS}/one").data
        assert (shown["state"], shown["result"]) == ("Queued", None)


def test_replay_requires_operator_token(api: Api) -> None:
    row = accept(function_row("echo"), invocationID="replay")
    _, secret = token_create(tenant=row.tenant, name="app", scopes=[Scope.USER])
    known = {"HTTP_AUTHORIZATION": f"Bearer {secret}"}
    body = b'{"operationID": "r-1"}'

    replay = api.send("POST", f"{INVOCATIONS}/replay/replay", body, **known)
    cancel = api.send("POST", f"{INVOCATIONS}/replay/cancel", body, **known)

    assert (replay.status, replay.code) == (403, "forbidden")
    assert cancel.status == 202


class TestWaiting:
    """Mode `sync`."""

    BODY: ClassVar[dict[str, Any]] = {**BODY, "mode": "sync", "timeoutSeconds": 1}

    def test_status_is_202_after_time_limit(
        self, api: Api, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(waiting, "MARGIN_SECONDS", -0.9)
        function_row("echo")

        answer = api.post(INVOCATIONS, self.BODY)

        assert (answer.status, answer.data["state"]) == (202, "Queued")

    def test_setting_limits_the_wait(
        self, api: Api, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings.SYNC_WAIT_SECONDS = 7
        limits = []
        monkeypatch.setattr(SEATS, "wait", lambda *call: limits.append(call[2]))
        function_row("echo")

        for seconds in (1, 300):
            api.post(
                INVOCATIONS,
                {
                    **BODY,
                    "mode": "sync",
                    "invocationID": f"call-{seconds}",
                    "timeoutSeconds": seconds,
                },
            )

        assert limits == [1 + waiting.MARGIN_SECONDS, 7]

    def test_call_of_client_that_disconnected_is_dropped(self, api: Api) -> None:
        function_row("echo")
        api.post(INVOCATIONS, self.BODY, **{IS_DISCONNECTED_KEY: lambda: True})
        dropped = Invocation.objects.get()

        again = api.post(INVOCATIONS, {**self.BODY, "mode": "async"})

        assert (dropped.state, dropped.failure_class) == ("Expired", "caller_disconnected")
        assert again.code == "operation_conflict"

    def test_ended_invocation_is_returned_immediately(self, api: Api) -> None:
        fields = {key: text for key, text in self.BODY.items() if key != "requestID"}
        accept(function_row("echo"), **fields)
        end()

        answer = api.post(INVOCATIONS, self.BODY)

        assert (answer.status, answer.data["result"]["body"]) == (200, "hello")

    def test_wait_without_free_seat_returns_immediately(self, api: Api) -> None:
        tenant = function_row("echo").tenant.pk

        with contextlib.ExitStack() as waits:
            for _ in range(SEATS.number_of_tenant):
                assert waits.enter_context(SEATS.seat(tenant))
            answer = api.post(INVOCATIONS, self.BODY)

        assert answer.status == 202
        assert answer.headers["Retry-After"] == str(RETRY_SECONDS)


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_result_that_arrives_during_wait_is_returned(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    function_row("echo")
    waits = threading.Event()
    wait = SEATS.wait

    def announced(tenant: int, is_over: Callable[[], bool], seconds: float) -> int:
        def seen() -> bool:
            found = is_over()
            waits.set()
            return found

        return wait(tenant, seen, seconds)

    monkeypatch.setattr(SEATS, "wait", announced)

    def work() -> None:
        assert waits.wait(20)
        end()
        connection.close()

    worker = threading.Thread(target=work)
    worker.start()
    answer = api.post(INVOCATIONS, {**BODY, "mode": "sync"})
    worker.join()

    assert (answer.status, answer.data["state"]) == (200, "Succeeded")
    assert answer.data["result"]["body"] == "hello"


class TestLinks:
    """Signed links to results."""

    @pytest.fixture
    def link(self, api: Api, settings: Settings) -> str:
        accept(function_row("echo"), invocationID="one")
        end(b"<script>\xff</script>", result_content_type="text/html")
        href = api.get(f"{INVOCATIONS}/one").data["result"]["href"]
        settings.GPUPLATFORM_DEV = False
        assert isinstance(href, str)
        return href

    def test_result_is_download_not_page(self, link: str) -> None:
        answer = Client().get(link)

        assert (answer.status_code, answer.content) == (200, b"<script>\xff</script>")
        assert answer.headers["Content-Disposition"] == "attachment"
        assert "sandbox" in answer.headers["Content-Security-Policy"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"

    def test_other_routes_require_token(self, link: str) -> None:
        assert Client().get(f"{INVOCATIONS}/one").status_code == 401

    def test_link_expires(self, link: str, monkeypatch: pytest.MonkeyPatch) -> None:
        late = clock.now() + timedelta(seconds=601)
        monkeypatch.setattr(clock, "now", lambda: late)

        assert Client().get(link).status_code == 403

    @pytest.mark.parametrize("what", ["sig", "key", "expires", "id", "rubbish"])
    def test_changed_link_is_rejected(self, link: str, what: str) -> None:
        other = accept(function_row("second"), invocationID="two")
        query = parse_qs(urlsplit(link).query)
        expires, sig = query["expires"][0], query["sig"][0]
        key, digest = sig.split(".")
        other_key = opaque(other.pk, "result")
        changed = {
            "sig": link[:-1] + ("0" if link[-1] != "0" else "1"),
            "key": f"{INVOCATIONS}/one/result?expires={expires}&sig={other_key}.{digest}",
            "expires": f"{INVOCATIONS}/one/result?expires={int(expires) + 9}&sig={sig}",
            "id": f"{INVOCATIONS}/two/result?expires={expires}&sig={sig}",
            "rubbish": f"{INVOCATIONS}/one/result?expires={expires}&sig={key}.",
        }

        assert Client().get(changed[what]).status_code == 403

    def test_link_without_result_is_not_found(self, link: str) -> None:
        Invocation.objects.update(status_code=None)

        assert Client().get(link).status_code == 404


def test_binary_body_is_base64(api: Api) -> None:
    accept(function_row("echo"), invocationID="one")
    end(b"\xff\x00", is_truncated=True, result_bytes=5_000_000)

    result = api.get(f"{INVOCATIONS}/one").data["result"]

    assert (result["body"], result["bodyEncoding"]) == ("/wA=", "base64")
    assert (result["bodyBytes"], result["truncated"]) == (5_000_000, True)
