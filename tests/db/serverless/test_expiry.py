"""Expiry of invocations that no worker started in time."""

from datetime import timedelta

import pytest
from django.db.models import F
from nats.aio.msg import Msg

from serverless.api.waiting import wait_for_end
from serverless.loops import expiry as expiry_loop
from serverless.loops.expiry import Expiry
from serverless.loops.relay import Relay
from serverless.loops.result_store import ResultStore
from serverless.models import Function, Invocation
from serverless.phases import FunctionReason, InvocationState
from serverless.queue.errors import QueueError
from serverless.queue.gateway import Queue
from serverless.queue.messages import EndReport
from serverless.services.invocations import invocation_cancel, invocation_replay
from serverless.services.outbox import outbox_claim, outbox_published
from tests.factories.serverless import Worker, accept, function_row, queued, store_all
from tests.fakes.queue_server import QueueServer

pytestmark = pytest.mark.django_db

TIME_IS_OVER = timedelta(hours=1)


@pytest.fixture
def expiry(queue: Queue) -> Expiry:
    return Expiry(queue)


def settled(row: Invocation) -> Invocation:
    return Invocation.objects.get(pk=row.pk)


def outcome(row: Invocation) -> tuple[str, str]:
    row = settled(row)
    return row.state, row.failure_class


def let_pass(row: Invocation) -> None:
    """Move the times of an invocation an hour back."""
    Invocation.objects.filter(pk=row.pk).update(
        accepted_at=F("accepted_at") - TIME_IS_OVER, expires_at=F("expires_at") - TIME_IS_OVER
    )


EXPIRED = ("Expired", "queue_timeout")


def test_time_of_expiry_is_of_request_or_function(cluster: object) -> None:
    function = function_row(expiresInSeconds=60)
    default, own, never = (
        accept(function),
        accept(function, expiresInSeconds=5),
        accept(function, expiresInSeconds=0),
    )
    none = accept(function_row())

    durations = [
        row.expires_at and (row.expires_at - row.accepted_at).total_seconds()
        for row in map(settled, (default, own, never, none))
    ]

    assert durations == [60, 5, None, None]
    assert default.expires_at == settled(default).expires_at


def test_only_due_invocation_expires(relay: Relay, expiry: Expiry, queue: Queue) -> None:
    function = function_row(expiresInSeconds=60)
    due, later, never = accept(function), accept(function), accept(function, expiresInSeconds=0)
    relay.publish()
    let_pass(due)

    expiry.step()

    assert outcome(due) == EXPIRED
    assert [settled(row).state for row in (later, never)] == ["Queued", "Queued"]
    assert settled(due).completed_at is not None
    assert queued(queue) == 2


@pytest.mark.parametrize(
    ("reason", "cause"),
    [(FunctionReason.NO_CAPACITY, ""), (FunctionReason.WORKER_FAILED, "ImagePullFailed")],
)
def test_error_names_what_it_waited_for(
    reason: str, cause: str, relay: Relay, expiry: Expiry
) -> None:
    function = function_row(expiresInSeconds=60)
    Function.objects.update(reason=reason, cause=cause, message="The details.")
    row = accept(function)
    let_pass(row)

    expiry.step()

    error = settled(row).error
    assert reason in error
    assert cause in error
    assert "The details." in error


def test_expired_invocation_is_not_delivered(relay: Relay, expiry: Expiry, queue: Queue) -> None:
    function = function_row(expiresInSeconds=60)
    worker = Worker(queue, function)
    row = accept(function)
    relay.publish()
    let_pass(row)

    expiry.step()

    assert worker.take(seconds=0.3) == []
    assert settled(row).stream_sequence is None


def test_started_invocation_does_not_expire(
    relay: Relay, store: ResultStore, expiry: Expiry, queue: Queue
) -> None:
    function = function_row(expiresInSeconds=60)
    worker = Worker(queue, function)
    row = accept(function)
    relay.publish()
    received = worker.take_one()
    worker.report(worker.started(received))
    store_all(store, queue)
    let_pass(row)

    expiry.step()
    assert settled(row).state == "Running"
    worker.report(worker.finished(received))
    store_all(store, queue)

    assert settled(row).state == "Succeeded"


def test_result_after_expiry_is_ignored(
    relay: Relay, store: ResultStore, expiry: Expiry, queue: Queue
) -> None:
    function = function_row(expiresInSeconds=60)
    worker = Worker(queue, function)
    row = accept(function)
    relay.publish()
    received = worker.take_one()
    let_pass(row)

    expiry.step()
    worker.report(worker.started(received), worker.finished(received))
    store_all(store, queue)

    assert outcome(row) == EXPIRED
    assert settled(row).status_code is None


def test_message_is_deleted_after_outage_of_queue(
    relay: Relay, expiry: Expiry, queue: Queue, queue_server: QueueServer
) -> None:
    row = accept(function_row(expiresInSeconds=60))
    relay.publish()
    let_pass(row)
    queue_server.kill()

    with pytest.raises(QueueError):
        expiry.step()
    assert outcome(row) == EXPIRED
    queue_server.start()
    step_when_back(expiry)

    assert queued(queue) == 0


def step_when_back(expiry: Expiry) -> None:
    """Repeat the step until the connection is restored."""
    for _ in range(100):
        try:
            return expiry.step()
        except QueueError:
            continue
    pytest.fail("the queue is still unavailable")


def test_message_that_is_published_during_expiry_is_deleted(
    relay: Relay, expiry: Expiry, queue: Queue
) -> None:
    row = accept(function_row(expiresInSeconds=60))
    claimed = outbox_claim(1)
    let_pass(row)

    expiry.step()

    assert outbox_published([(claimed[0], 7)]) == [7]


def test_report_of_worker_expires_invocation(
    relay: Relay, store: ResultStore, queue: Queue
) -> None:
    function = function_row(expiresInSeconds=60)
    Function.objects.update(reason="NoCapacity")
    worker = Worker(queue, function)
    row = accept(function)
    relay.publish()
    let_pass(row)
    received = worker.take_one()

    worker.report(too_late(worker, received))
    worker.acknowledge(received)
    store_all(store, queue)

    assert outcome(row) == EXPIRED
    assert "NoCapacity" in settled(row).error


def too_late(worker: Worker, received: Msg) -> EndReport:
    """Return the report of a worker that received an expired invocation."""
    return worker.finished(
        received,
        state="Expired",
        failure_class="queue_timeout",
        status_code=None,
        body=b"",
        size=0,
    )


def test_invocation_is_published_again_if_clock_of_worker_is_ahead(
    relay: Relay, store: ResultStore, queue: Queue
) -> None:
    function = function_row(expiresInSeconds=60)
    worker = Worker(queue, function)
    row = accept(function)
    relay.publish()
    received = worker.take_one()

    worker.report(too_late(worker, received))
    worker.acknowledge(received)
    store_all(store, queue)

    assert (settled(row).state, settled(row).publications) == ("Queued", 2)
    relay.publish()
    worker.serve_one()
    store_all(store, queue)
    assert settled(row).state == "Succeeded"


def test_cancelled_invocation_does_not_expire(relay: Relay, expiry: Expiry) -> None:
    row = accept(function_row(expiresInSeconds=60))
    let_pass(row)
    invocation_cancel(tenant=row.tenant, invocation_id=row.invocation_id, operation_id="cancel-it")

    expiry.step()

    assert settled(row).state == "Cancelled"


def test_invocations_of_several_functions_expire_in_batches(
    expiry: Expiry, monkeypatch: pytest.MonkeyPatch, cluster: object
) -> None:
    monkeypatch.setattr(expiry_loop, "BATCH", 2)
    functions = [function_row(expiresInSeconds=60) for _ in range(3)]
    for row in [accept(function) for function in functions for _ in range(2)]:
        let_pass(row)

    expiry.step()

    assert Invocation.objects.filter(state=InvocationState.EXPIRED).count() == 6


def call(function: Function) -> Invocation:
    """Accept the synchronous invocation `call-1`."""
    return accept(function, mode="sync", invocationID="call-1")


def wait_without_caller(row: Invocation) -> int:
    return wait_for_end(row, lambda: True)


DROPPED = ("Expired", "caller_disconnected")


def test_call_whose_caller_disconnected_is_not_delivered(
    relay: Relay, expiry: Expiry, queue: Queue
) -> None:
    function = function_row()
    Function.objects.update(reason="NoCapacity")
    worker = Worker(queue, function)
    row = call(function)
    relay.publish()

    wait_without_caller(row)
    expiry.step()

    assert outcome(row) == DROPPED
    assert "NoCapacity" in settled(row).error
    assert worker.take(seconds=0.3) == []


def test_running_call_whose_caller_disconnected_is_completed(
    relay: Relay, store: ResultStore, expiry: Expiry, queue: Queue
) -> None:
    function = function_row()
    worker = Worker(queue, function)
    row = call(function)
    relay.publish()
    received = worker.take_one()
    worker.report(worker.started(received))
    store_all(store, queue)

    wait_without_caller(row)
    expiry.step()
    worker.report(worker.finished(received))
    store_all(store, queue)

    assert settled(row).state == "Succeeded"


def test_result_after_caller_disconnected_is_ignored(
    relay: Relay, store: ResultStore, queue: Queue
) -> None:
    function = function_row()
    worker = Worker(queue, function)
    row = call(function)
    relay.publish()
    received = worker.take_one()

    wait_without_caller(row)
    worker.report(worker.finished(received))
    store_all(store, queue)

    assert outcome(row) == DROPPED


def test_repeated_call_queues_dropped_invocation_again(
    relay: Relay, store: ResultStore, expiry: Expiry, queue: Queue
) -> None:
    function = function_row()
    worker = Worker(queue, function)
    relay.publish()
    wait_without_caller(call(function))
    expiry.step()

    again = call(function)
    relay.publish()
    worker.serve_one()
    store_all(store, queue)

    assert again.state == "Queued"
    assert settled(again).state == "Succeeded"


def test_call_is_not_dropped_while_repeated_call_waits(cluster: object) -> None:
    function = function_row()
    first, second = call(function), call(function)

    wait_without_caller(first)
    assert settled(first).state == "Queued"
    wait_without_caller(second)

    assert outcome(second) == DROPPED


@pytest.mark.parametrize("state", [InvocationState.FAILED, InvocationState.EXPIRED])
def test_failed_invocation_is_replayed_without_its_old_result(
    state: str, relay: Relay, store: ResultStore, expiry: Expiry, queue: Queue
) -> None:
    function = function_row(expiresInSeconds=60)
    worker = Worker(queue, function)
    row = accept(function)
    relay.publish()
    received = worker.take_one()
    worker.report(
        worker.finished(received, state=state, failure_class="framework_error", status_code=500)
    )
    worker.acknowledge(received)
    store_all(store, queue)
    let_pass(row)

    invocation_replay(tenant=row.tenant, invocation_id=row.invocation_id, operation_id="r-1")
    expiry.step()

    queued_again = settled(row)
    assert queued_again.state == "Queued"
    assert (queued_again.status_code, queued_again.result_body) == (None, None)
    relay.publish()
    worker.serve_one()
    store_all(store, queue)
    assert (settled(row).state, settled(row).publications) == ("Succeeded", 2)
    assert (settled(row).failure_class, settled(row).result_attempt) == ("", 1)


def test_expired_invocation_is_replayed_and_expires_again(relay: Relay, expiry: Expiry) -> None:
    row = accept(function_row(expiresInSeconds=60))
    let_pass(row)
    expiry.step()

    invocation_replay(tenant=row.tenant, invocation_id=row.invocation_id, operation_id="r-1")
    expiry.step()
    assert settled(row).state == "Queued"
    let_pass(row)
    expiry.step()

    assert outcome(row) == EXPIRED
