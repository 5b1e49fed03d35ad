"""Accepting, cancelling and replaying invocations: idempotency and rejections."""

import base64
import threading
from typing import Any

import pytest
from django.db import connection

from gpuplatform.errors import (
    NotFound,
    OperationConflict,
    OperatorUnavailable,
    PhaseConflict,
    RecoveryNeeded,
    Throttled,
    TooLarge,
)
from gpuplatform.kube import modes
from gpuplatform.operations.models import Operation
from gpuplatform.process_local import ProcessLocal
from gpuplatform.reconciliation.models import ClusterState
from gpuplatform.tenancy.selectors import tenant_by_name
from serverless.models import Function, Invocation
from serverless.requests import FunctionUpdate, InvocationCreate
from serverless.services import invocations
from serverless.services.functions import function_request_deletion, function_update
from serverless.services.invocations import (
    AcceptedInvocation,
    invocation_accept,
    invocation_cancel,
    invocation_replay,
)
from tests.factories.serverless import SPEC, accept, function_row, tenant_row

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("cluster")]


def ask(function: Function, **fields: Any) -> AcceptedInvocation:
    """Accept an invocation with a given id."""
    body = {"requestID": function.request_id, "invocationID": "i-1", "payload": "a", **fields}
    return invocation_accept(tenant=function.tenant, body=InvocationCreate.parse(body))


def test_same_id_and_payload_returns_first_invocation() -> None:
    function = function_row()

    first, again = ask(function), ask(function)

    assert (first.is_replay, again.is_replay) == (False, True)
    assert first.invocation.pk == again.invocation.pk
    assert Invocation.objects.count() == 1


def test_both_encodings_of_same_bytes_are_same_invocation() -> None:
    function = function_row()
    encoded = base64.b64encode(b"a").decode()

    ask(function)

    assert ask(function, payload=encoded, payloadEncoding="base64").is_replay


@pytest.mark.parametrize(
    "other",
    [
        {"payload": "b"},
        {"mode": "sync"},
        {"contentType": "text/plain"},
        {"headers": {"X-A": "1"}},
        {"timeoutSeconds": 3},
    ],
    ids=["payload", "mode", "content type", "headers", "timeout"],
)
def test_same_id_with_another_request_conflicts(other: dict[str, Any]) -> None:
    function = function_row()
    ask(function)

    with pytest.raises(OperationConflict):
        ask(function, **other)


def test_same_id_for_another_function_conflicts() -> None:
    ask(function_row())

    with pytest.raises(OperationConflict):
        ask(function_row())


def test_ids_are_unique_per_tenant() -> None:
    theirs = function_row(tenant=tenant_row("other"))

    ask(function_row())

    assert not ask(theirs).is_replay


def test_function_of_another_tenant_is_not_found() -> None:
    theirs = function_row(tenant=tenant_row("other"))
    body = InvocationCreate.parse({"requestID": theirs.request_id, "payload": "a"})

    with pytest.raises(NotFound):
        invocation_accept(tenant=tenant_by_name(), body=body)


def test_replay_is_returned_after_function_is_deleted() -> None:
    function = function_row()
    ask(function)
    function_request_deletion(
        tenant=function.tenant, request_id=function.request_id, operation_id="d-1"
    )

    assert ask(function).is_replay
    with pytest.raises(PhaseConflict):
        ask(function, invocationID="i-2")


@pytest.mark.parametrize("size", [512 * 1024, 512 * 1024 + 1], ids=["at the limit", "above it"])
def test_payload_over_limit_is_rejected(size: int) -> None:
    function = function_row()

    if size <= 512 * 1024:
        assert len(bytes(ask(function, payload="x" * size).invocation.payload)) == size
    else:
        with pytest.raises(TooLarge):
            ask(function, payload="x" * size)
        assert not Invocation.objects.exists()


def test_too_many_open_invocations_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invocations, "MAX_OPEN", 2)
    function = function_row()
    rows = [accept(function) for _ in range(2)]

    with pytest.raises(Throttled):
        accept(function)
    accept(function_row())
    Invocation.objects.filter(pk=rows[0].pk).update(
        state="Cancelled", completed_at="2026-01-01T00:00:00Z"
    )
    accept(function)


def test_default_timeout_is_timeout_of_function() -> None:
    assert accept(function_row(timeoutSeconds=77)).timeout_seconds == 77
    assert accept(function_row(), timeoutSeconds=5).timeout_seconds == 5


def test_invocation_is_rejected_while_recovery_is_needed() -> None:
    function = function_row()
    ClusterState.objects.update_or_create(defaults={"recovery_reason": "another database"})

    with pytest.raises(RecoveryNeeded):
        accept(function)


def test_invocation_is_rejected_without_cluster(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = function_row()
    settings.KUBE_MODE = "off"
    monkeypatch.setattr(modes, "_REQUESTS", ProcessLocal(modes._from_settings))

    with pytest.raises(OperatorUnavailable):
        accept(function)


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_concurrent_requests_with_one_id_create_one_invocation() -> None:
    function = function_row()
    begin = threading.Barrier(6)
    answers: list[AcceptedInvocation] = []

    def post() -> None:
        begin.wait(10)
        answers.append(ask(function))
        connection.close()

    threads = [threading.Thread(target=post) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert [one.is_replay for one in answers].count(False) == 1
    assert len({one.invocation.pk for one in answers}) == 1


def cancel(row: Invocation, operation_id: str = "c-1") -> None:
    """Cancel an invocation as the API does."""
    invocation_cancel(
        tenant=row.tenant, invocation_id=row.invocation_id, operation_id=operation_id
    )


def test_queued_invocation_is_cancelled_idempotently() -> None:
    row = accept(function_row())

    cancel(row)
    cancel(row)

    row.refresh_from_db()
    assert (row.state, Operation.objects.filter(kind="invocation.cancel").count()) == (
        "Cancelled",
        1,
    )


@pytest.mark.parametrize("state", ["Running", "Succeeded", "DeadLettered", "Cancelled"])
def test_only_queued_invocation_is_cancelled(state: str) -> None:
    row = accept(function_row())
    Invocation.objects.update(state=state, completed_at="2026-01-01T00:00:00Z")

    with pytest.raises(PhaseConflict):
        cancel(row)

    row.refresh_from_db()
    assert row.state == state
    assert not Operation.objects.filter(kind="invocation.cancel").exists()


@pytest.mark.parametrize("state", ["Queued", "Running", "Succeeded", "Cancelled"])
def test_only_failed_invocation_is_replayed(state: str) -> None:
    row = accept(function_row())
    Invocation.objects.update(state=state, completed_at="2026-01-01T00:00:00Z")

    with pytest.raises(PhaseConflict):
        invocation_replay(tenant=row.tenant, invocation_id=row.invocation_id, operation_id="r-1")


def test_dead_letter_of_deleted_function_is_not_replayed() -> None:
    row = accept(function_row())
    Invocation.objects.update(state="DeadLettered", completed_at="2026-01-01T00:00:00Z")
    Function.objects.update(deleted_at="2026-01-01T00:00:00Z")

    with pytest.raises(PhaseConflict):
        invocation_replay(tenant=row.tenant, invocation_id=row.invocation_id, operation_id="r-1")


def test_invocation_of_another_tenant_is_not_found() -> None:
    row = accept(function_row(tenant=tenant_row("other")))

    with pytest.raises(NotFound):
        invocation_cancel(
            tenant=tenant_by_name(), invocation_id=row.invocation_id, operation_id="c-1"
        )


def test_deletion_cancels_queued_and_keeps_running_invocations() -> None:
    function = function_row()
    waits, runs = accept(function), accept(function)
    Invocation.objects.filter(pk=runs.pk).update(state="Running")

    function_request_deletion(
        tenant=function.tenant, request_id=function.request_id, operation_id="d-1"
    )

    waits.refresh_from_db()
    runs.refresh_from_db()
    function.refresh_from_db()
    assert (waits.state, runs.state, function.phase) == ("Cancelled", "Running", "Terminating")


def test_update_changes_the_given_fields_and_the_generation() -> None:
    function = function_row(timeoutSeconds=9)
    body = FunctionUpdate.parse({"operationID": "u-1", **SPEC, "maxWorkers": 3})

    function_update(tenant=function.tenant, request_id=function.request_id, body=body)

    function.refresh_from_db()
    assert function.spec == {**SPEC, "maxWorkers": 3, "timeoutSeconds": 9}
    assert function.generation == 2
