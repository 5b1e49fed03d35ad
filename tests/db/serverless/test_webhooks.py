"""The outbox of webhooks: which ends are sent, claims, retries, retention and secrets."""

import base64
import json
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now
from pytest_django import Settings

from gpuplatform.clock import now
from gpuplatform.errors import InvalidSpec, PhaseConflict
from serverless.core.webhooks import MAX_ATTEMPTS, RETRY_SECONDS
from serverless.documents import MAX_WEBHOOK_RESULT_BYTES, webhook_body
from serverless.loops.relay import Relay
from serverless.loops.result_store import ResultStore
from serverless.models import WEBHOOK_OUTBOX, Function, Invocation, WebhookSecret
from serverless.phases import FailureClass, InvocationState
from serverless.queue.gateway import Queue
from serverless.requests import WebhookSecretCreate
from serverless.services.endings import (
    invocation_dead_letter,
    invocation_drop,
    invocation_fail,
    invocations_abandon,
    invocations_cancel_waiting,
    invocations_expire,
)
from serverless.services.invocations import (
    invocation_cancel,
    invocation_replay,
    invocations_prune,
)
from serverless.services.webhook_secrets import (
    MAX_SECRETS,
    CreatedSecret,
    signing_keys,
    webhook_secret_create,
)
from serverless.services.webhooks import (
    CLAIM_SECONDS,
    MAX_RECORDED,
    Attempt,
    webhook_record,
    webhooks_claim,
)
from serverless.webhook_phases import WebhookFailure, WebhookState
from tests.factories.serverless import Worker, accept, function_row, store_all, tenant_row

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("cluster")]

URL = "https://example.com/hook"
SUCCESS = Attempt(now(), 0.1, 204)
FAILURE = Attempt(now(), 0.1, 500, WebhookFailure.BAD_STATUS)


def secret(function: Function, **fields: int) -> CreatedSecret:
    body = WebhookSecretCreate.parse(fields)
    return webhook_secret_create(tenant=function.tenant, request_id=function.request_id, body=body)


def webhook_function(**spec: Any) -> Function:
    """Insert a function with a secret and a default webhook."""
    function = function_row(onDone={"url": URL}, **spec)
    secret(function)
    return function


def claim(limit: int = 100, per_function: int = 100) -> list[Invocation]:
    return webhooks_claim(limit, busy={}, per_function=per_function)


def settled(row: Invocation) -> Invocation:
    return Invocation.objects.get(pk=row.pk)


def make_due() -> None:
    Invocation.objects.update(webhook_after=Now() - timedelta(seconds=1))


def ended(row: Invocation) -> Invocation:
    invocation_fail(row.pk, row.publications, FailureClass.FRAMEWORK_ERROR, "It failed.")
    return settled(row)


def let_expire(row: Invocation) -> None:
    Invocation.objects.filter(pk=row.pk).update(expires_at=Now() - timedelta(seconds=1))
    invocations_expire(10)


def cancel(row: Invocation) -> None:
    invocation_cancel(tenant=row.tenant, invocation_id=row.invocation_id, operation_id="cancel-1")


ENDS: dict[str, tuple[Callable[[Invocation], object], str]] = {
    "failed": (ended, "Failed"),
    "dead letter": (
        lambda row: invocation_dead_letter(row.pk, 1, FailureClass.RETRY_EXHAUSTED, "Given up."),
        "DeadLettered",
    ),
    "expired": (let_expire, "Expired"),
    "caller left": (invocation_drop, "Expired"),
    "cancelled": (cancel, "Cancelled"),
    "function deleted": (lambda row: invocations_cancel_waiting(row.function), "Cancelled"),
    "function gone": (lambda row: invocations_abandon(row.function), "Cancelled"),
}


@pytest.mark.parametrize(("end", "state"), ENDS.values(), ids=list(ENDS))
def test_every_end_is_sent(end: Callable[[Invocation], object], state: str) -> None:
    row = accept(webhook_function(expiresInSeconds=60))
    assert claim() == []

    end(row)

    (claimed,) = claim()
    assert (claimed.pk, claimed.state, claimed.webhook_state) == (row.pk, state, "Pending")


def test_result_of_worker_is_sent(relay: Relay, store: ResultStore, queue: Queue) -> None:
    function = webhook_function()
    worker = Worker(queue, function)
    accept(function, payload="hello")
    relay.publish()
    worker.serve_one()
    store_all(store, queue)

    (claimed,) = claim()

    event = json.loads(webhook_body(claimed))
    assert (event["type"], event["data"]["state"]) == ("invocation.ended", "Succeeded")
    assert event["data"]["result"]["body"] == "hello"
    assert "webhook" not in event["data"]


def test_end_without_webhook_is_not_sent() -> None:
    function = webhook_function()
    ended(accept(function, onDone={}))
    ended(accept(function_row()))

    assert claim() == []


def test_request_replaces_webhook_of_function() -> None:
    function = webhook_function()

    own, default = accept(function, onDone={"url": f"{URL}/own"}), accept(function)

    assert (own.on_done_url, default.on_done_url) == (f"{URL}/own", URL)


def test_end_that_replaces_another_is_sent_again(
    relay: Relay, store: ResultStore, queue: Queue
) -> None:
    function = webhook_function()
    worker = Worker(queue, function)
    row = accept(function)
    relay.publish()
    received = worker.take_one()
    invocation_dead_letter(row.pk, 1, FailureClass.RETRY_EXHAUSTED, "Given up.")
    (first,) = claim()
    webhook_record(first, SUCCESS)

    worker.report(worker.finished(received))
    store_all(store, queue)

    (second,) = claim()
    assert (first.state, second.state) == ("DeadLettered", "Succeeded")
    assert first.webhook_id != second.webhook_id


def test_attempt_for_earlier_end_does_not_complete_delivery() -> None:
    row = ended(accept(webhook_function()))
    (claimed,) = claim()
    invocation_replay(tenant=row.tenant, invocation_id=row.invocation_id, operation_id="r-1")

    webhook_record(claimed, SUCCESS)

    assert settled(row).webhook_state == WebhookState.PENDING
    assert claim() == []
    ended(settled(row))
    (again,) = claim()
    assert again.webhook_id != claimed.webhook_id
    assert len(settled(row).webhook_attempts) == 1


def test_delivery_id_is_the_same_for_all_attempts() -> None:
    ended(accept(webhook_function()))
    ids = set()
    for _ in range(3):
        (claimed,) = claim()
        ids.add(claimed.webhook_id)
        webhook_record(claimed, FAILURE)
        make_due()

    assert len(ids) == 1


def test_delivered_webhook_is_not_sent_again() -> None:
    row = ended(accept(webhook_function()))
    (claimed,) = claim()

    webhook_record(claimed, SUCCESS)

    assert claim() == []
    row = settled(row)
    assert (row.webhook_state, row.webhook_after) == ("Delivered", None)
    assert [one["statusCode"] for one in row.webhook_attempts] == [204]


def test_failed_attempts_are_retried_with_delays_and_then_end() -> None:
    row = ended(accept(webhook_function()))
    delays: list[int] = []
    for _ in range(MAX_ATTEMPTS):
        make_due()
        (claimed,) = claim()
        before = now()
        webhook_record(claimed, FAILURE)
        after = settled(row).webhook_after
        delays += [round((after - before).total_seconds())] if after else []

    assert delays == list(RETRY_SECONDS)
    assert settled(row).webhook_state == WebhookState.FAILED
    make_due()
    assert claim() == []
    reasons = [one["reason"] for one in settled(row).webhook_attempts]
    assert reasons == ["BadStatus"] * MAX_ATTEMPTS


def test_recorded_attempts_are_bounded() -> None:
    row = ended(accept(webhook_function()))
    entry = FAILURE.record(uuid.uuid4())
    Invocation.objects.update(webhook_attempts=[entry] * MAX_RECORDED)
    (claimed,) = claim()

    webhook_record(claimed, SUCCESS)

    attempts = settled(row).webhook_attempts
    assert len(attempts) == MAX_RECORDED
    assert attempts[-1]["reason"] == ""


def test_webhook_of_killed_sender_is_claimed_again() -> None:
    row = ended(accept(webhook_function()))
    (first,) = claim()  # The sender is killed before it records an attempt.
    assert claim() == []

    Invocation.objects.filter(pk=row.pk).update(
        webhook_after=F("webhook_after") - timedelta(seconds=CLAIM_SECONDS)
    )

    (second,) = claim()
    assert second.webhook_id == first.webhook_id


@pytest.mark.django_db(transaction=True)
def test_concurrent_senders_claim_each_webhook_once() -> None:
    function = webhook_function()
    for _ in range(12):
        ended(accept(function))
    barrier = threading.Barrier(3)

    def claim_some(_: int) -> list[int]:
        try:
            barrier.wait(10)
            return [row.pk for row in claim(5)]
        finally:
            connection.close()

    with ThreadPoolExecutor(3) as pool:
        claimed = [key for found in pool.map(claim_some, range(3)) for key in found]
    claimed += [row.pk for row in claim()]

    assert sorted(claimed) == sorted(Invocation.objects.values_list("pk", flat=True))


def test_slow_receiver_of_one_function_does_not_delay_others() -> None:
    slow, other = webhook_function(), webhook_function()
    for _ in range(5):
        ended(accept(slow))
    ended(accept(other))

    first = webhooks_claim(10, busy={}, per_function=2)
    second = webhooks_claim(10, busy={slow.pk: 2}, per_function=2)

    assert sorted(row.function_id for row in first) == [slow.pk, slow.pk, other.pk]
    assert second == []


def test_tenant_with_slow_receivers_does_not_delay_other_tenants() -> None:
    slow = [webhook_function() for _ in range(3)]
    for function in slow:
        for _ in range(4):
            ended(accept(function))
    other = webhook_function(tenant=tenant_row("other"))
    ended(accept(other))
    busy = {function.pk: 1 for function in slow}

    (row,) = webhooks_claim(1, busy=busy, per_function=2, busy_tenants={slow[0].tenant_id})
    rest = webhooks_claim(20, busy={}, per_function=9, busy_tenants={slow[0].tenant_id})

    assert row.function_id == other.pk
    assert {one.function_id for one in rest} == busy.keys()


def test_invocation_is_kept_until_its_webhook_ends() -> None:
    pending, delivered = (ended(accept(webhook_function())) for _ in range(2))
    Invocation.objects.update(completed_at=Now() - timedelta(days=8))
    Invocation.objects.filter(pk=delivered.pk).update(webhook_state=WebhookState.DELIVERED)

    invocations_prune()

    assert list(Invocation.objects.all()) == [pending]


@pytest.mark.parametrize(
    ("size", "has_body"), [(MAX_WEBHOOK_RESULT_BYTES, True), (MAX_WEBHOOK_RESULT_BYTES + 1, False)]
)
def test_large_result_is_not_contained(size: int, *, has_body: bool) -> None:
    row = accept(webhook_function())
    Invocation.objects.filter(pk=row.pk).update(
        state=InvocationState.SUCCEEDED,
        completed_at=Now(),
        status_code=200,
        result_body=b"x" * size,
        result_bytes=size,
    )
    (claimed,) = claim()

    result = json.loads(webhook_body(claimed))["data"]["result"]

    assert (result["body"] is not None) is has_body
    assert result["bodyBytes"] == size
    assert result["href"]


def test_invocation_without_secret_is_rejected() -> None:
    function = function_row(onDone={"url": URL})

    with pytest.raises(PhaseConflict):
        accept(function)

    assert not Invocation.objects.exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "169.254.169.254", "10.0.0.1:8080"])
def test_url_with_private_address_is_rejected(host: str, settings: Settings) -> None:
    settings.WEBHOOK_NETWORKS = ()
    function = webhook_function()

    with pytest.raises(InvalidSpec) as caught:
        accept(function, onDone={"url": f"http://{host}/"})

    assert [one.field for one in caught.value.details] == ["onDone.url"]


def test_new_secret_signs_beside_the_earlier_ones() -> None:
    function = function_row()
    first, second = secret(function), secret(function)

    assert first.previous_expires_at is None
    assert second.previous_expires_at is not None
    assert first.secret != second.secret
    assert len(signing_keys(function)) == 2
    assert signing_keys(function_row()) == []


def test_earlier_secret_expires() -> None:
    function = function_row()
    secret(function)
    kept = secret(function, previousExpiresInSeconds=0)

    (key,) = signing_keys(function)

    assert kept.secret.endswith(base64.b64encode(key).decode())


def test_number_of_valid_secrets_is_limited() -> None:
    function = function_row()
    for _ in range(MAX_SECRETS + 5):
        secret(function)

    assert len(signing_keys(function)) == MAX_SECRETS
    assert function.webhook_secrets.count() == MAX_SECRETS + 1  # One has just expired.


def test_database_does_not_contain_the_secret(settings: Settings) -> None:
    function = function_row()
    created = secret(function)
    keys = signing_keys(function)

    settings.SECRET_KEY = "another installation"

    assert created.secret not in str(list(WebhookSecret.objects.values()))
    assert signing_keys(function) != keys


def test_due_webhooks_use_the_index() -> None:
    connection.cursor().execute("SET LOCAL enable_seqscan = off")
    plan = Invocation.objects.filter(WEBHOOK_OUTBOX).order_by("webhook_after")[:10].explain()

    assert "invocation_webhook" in plan
