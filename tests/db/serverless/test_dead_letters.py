"""Messages that nobody will get any more: each ends as a dead letter, unless it was answered."""

from typing import Any

import pytest

from serverless import results
from serverless.models import Invocation
from serverless.queue.gateway import Queue, Received
from serverless.queue.names import ADVISORIES, INVOCATIONS
from serverless.relay import Relay
from serverless.results import DeadLetters, ResultStore
from serverless.services import invocation_replay
from tests.factories.serverless import Worker, accept, function_row, queued, store_all
from tests.fakes.cluster import Killed

pytestmark = pytest.mark.django_db


def exhaust(worker: Worker, queue: Queue) -> Received:
    """Take an invocation as often as allowed and end it never; the server says so."""
    received = worker.take_one()
    for _ in range(worker.function.spec.get("maxDeliver", 5) - 1):
        queue.postpone([received], 0.001)
        received = worker.take_one()
    queue.postpone([received], 0.001)
    # The server notices at the next request.
    assert worker.take(1, seconds=0.3) == []
    return received


def decide(dead_letters: DeadLetters, queue: Queue) -> None:
    """Decide until nothing is left to be decided."""
    for _ in range(20):
        dead_letters.step()
        if not queued(queue, ADVISORIES):
            return


def test_exhausted_invocation_is_dead_lettered_and_leaves_the_queue(
    relay: Relay, dead_letters: DeadLetters, queue: Queue
) -> None:
    function = function_row(maxDeliver=3)
    row = accept(function)
    relay.publish()
    exhaust(Worker(queue, function), queue)
    backlog = queue.backlog("default", function.pk)
    assert backlog is not None
    assert (backlog.pending, backlog.in_work, backlog.exhausted) == (0, 0, 1)

    decide(dead_letters, queue)

    row.refresh_from_db()
    assert (row.state, row.failure_class) == ("DeadLettered", "retry_exhausted")
    assert "3 times" in row.error
    assert queued(queue) == 0


def test_invocation_that_waits_for_its_next_delivery_is_in_work(
    relay: Relay, queue: Queue
) -> None:
    function = function_row()
    accept(function)
    relay.publish()
    worker = Worker(queue, function)

    queue.postpone([worker.take_one()], 30)

    backlog = queue.backlog("default", function.pk)
    assert backlog is not None
    assert (backlog.in_work, backlog.exhausted) == (1, 0)


def test_result_that_was_sent_before_the_last_delivery_ended_counts(
    relay: Relay,
    store: ResultStore,
    dead_letters: DeadLetters,
    queue: Queue,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    function = function_row(maxDeliver=1)
    row = accept(function)
    relay.publish()
    worker = Worker(queue, function)
    received = exhaust(worker, queue)
    worker.say(worker.finished(received))
    monkeypatch.setattr(results, "AGAIN_SECONDS", 0.01)

    dead_letters.step()
    row.refresh_from_db()
    assert row.state == "Queued"
    store_all(store, queue)
    decide(dead_letters, queue)

    row.refresh_from_db()
    assert row.state == "Succeeded"
    assert queued(queue) == 0


def test_message_that_a_worker_cannot_read_is_dead_lettered_at_once(
    relay: Relay, dead_letters: DeadLetters, queue: Queue
) -> None:
    function = function_row()
    row = accept(function)
    relay.publish()
    worker = Worker(queue, function)

    queue.terminate([worker.take_one()], "no such header")
    decide(dead_letters, queue)

    row.refresh_from_db()
    assert (row.state, row.failure_class) == ("DeadLettered", "malformed_message")
    assert "no such header" in row.error


@pytest.mark.parametrize("dies", ["before it deletes the message", "before it acknowledges"])
def test_killed_process_decides_once(
    dies: str,
    relay: Relay,
    dead_letters: DeadLetters,
    queue: Queue,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    function = function_row(maxDeliver=1)
    row = accept(function)
    relay.publish()
    exhaust(Worker(queue, function), queue)

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(queue, "delete" if "deletes" in dies else "acknowledge", die)
        with pytest.raises(Killed):
            dead_letters.step()
    give_back(queue)
    decide(DeadLetters(queue, wait_seconds=0.3), queue)

    row.refresh_from_db()
    assert row.state == "DeadLettered"
    assert queued(queue) == 0


def give_back(queue: Queue) -> None:
    """Let the time be over in which the dead process had its messages."""

    async def change(js: Any) -> None:
        info = await js.consumer_info(ADVISORIES, "advisories")
        await js.add_consumer(ADVISORIES, info.config.evolve(ack_wait=0.1))

    queue._call(change)


@pytest.mark.parametrize("advisory", [b"", b"{}", b"[1]", b'{"stream": "other"}'])
def test_advisory_that_is_none_is_let_go(
    advisory: bytes, dead_letters: DeadLetters, queue: Queue
) -> None:
    subject = f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{INVOCATIONS}.fn-1"
    queue._call(lambda js: js.publish(subject, advisory))

    decide(dead_letters, queue)

    assert queued(queue, ADVISORIES) == 0


def test_replayed_dead_letter_is_delivered_again_and_answered(
    relay: Relay, store: ResultStore, dead_letters: DeadLetters, queue: Queue
) -> None:
    function = function_row(maxDeliver=1)
    row = accept(function)
    relay.publish()
    worker = Worker(queue, function)
    old = exhaust(worker, queue)
    decide(dead_letters, queue)

    invocation_replay(tenant=row.tenant, invocation_id=row.invocation_id, operation_id="r-1")
    relay.publish()
    worker.say(worker.finished(old, body=b"of the first time"))
    store_all(store, queue)
    assert Invocation.objects.get().state == "Queued"
    worker.serve_one()
    store_all(store, queue)

    row.refresh_from_db()
    assert (row.state, row.publications) == ("Succeeded", 2)
    assert bytes(row.result_body or b"") == b"hello"
