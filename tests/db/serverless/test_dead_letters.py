"""Dead letters: invocations without a result whose messages are no longer delivered."""

from typing import Any

import pytest
from nats.aio.msg import Msg

from serverless.loops import result_store as results
from serverless.loops.dead_letters import DeadLetters
from serverless.loops.relay import Relay
from serverless.loops.result_store import ResultStore
from serverless.models import Invocation
from serverless.queue.gateway import Queue
from serverless.queue.names import ADVISORIES, INVOCATIONS
from serverless.services.invocations import invocation_replay
from tests.factories.serverless import Worker, accept, function_row, queued, store_all
from tests.fakes.cluster import Killed

pytestmark = pytest.mark.django_db


def exhaust(worker: Worker, queue: Queue) -> Msg:
    """Fetch an invocation as often as allowed without completing it."""
    received = worker.take_one()
    for _ in range(worker.function.spec.get("maxDeliver", 5) - 1):
        queue.postpone([received], 0.001)
        received = worker.take_one()
    queue.postpone([received], 0.001)
    # The server sends its advisory at the next request.
    assert worker.take(1, seconds=0.3) == []
    return received


def decide(dead_letters: DeadLetters, queue: Queue) -> None:
    """Handle advisories until the stream is empty."""
    for _ in range(20):
        dead_letters.step()
        if not queued(queue, ADVISORIES):
            return


def test_exhausted_invocation_is_dead_lettered(
    relay: Relay, dead_letters: DeadLetters, queue: Queue
) -> None:
    function = function_row(maxDeliver=3)
    row = accept(function)
    relay.publish()
    exhaust(Worker(queue, function), queue)
    backlog = queue.backlog("default", function.pk)
    assert backlog is not None
    assert (backlog.pending, backlog.in_progress, backlog.exhausted) == (0, 0, 1)

    decide(dead_letters, queue)

    row.refresh_from_db()
    assert (row.state, row.failure_class) == ("DeadLettered", "retry_exhausted")
    assert "3 times" in row.error
    assert queued(queue) == 0


def test_postponed_invocation_counts_as_in_progress(relay: Relay, queue: Queue) -> None:
    function = function_row()
    accept(function)
    relay.publish()
    worker = Worker(queue, function)

    queue.postpone([worker.take_one()], 30)

    backlog = queue.backlog("default", function.pk)
    assert backlog is not None
    assert (backlog.in_progress, backlog.exhausted) == (1, 0)


def test_result_before_last_delivery_ended_counts(
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
    worker.report(worker.finished(received))
    monkeypatch.setattr(results, "RETRY_SECONDS", 0.01)

    dead_letters.step()
    row.refresh_from_db()
    assert row.state == "Queued"
    store_all(store, queue)
    decide(dead_letters, queue)

    row.refresh_from_db()
    assert row.state == "Succeeded"
    assert queued(queue) == 0


def test_malformed_message_is_dead_lettered_immediately(
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
def test_killed_process_dead_letters_once(
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
    decide(DeadLetters(queue), queue)

    row.refresh_from_db()
    assert row.state == "DeadLettered"
    assert queued(queue) == 0


def give_back(queue: Queue) -> None:
    """Shorten the ack wait, so that messages of the killed process are delivered again."""

    async def change(js: Any) -> None:
        info = await js.consumer_info(ADVISORIES, "advisories")
        await js.add_consumer(ADVISORIES, info.config.evolve(ack_wait=0.1))

    queue.call(change)


@pytest.mark.parametrize("advisory", [b"", b"{}", b"[1]", b'{"stream": "other"}'])
def test_malformed_advisory_is_dropped(
    advisory: bytes, dead_letters: DeadLetters, queue: Queue
) -> None:
    subject = f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{INVOCATIONS}.fn-1"
    queue.call(lambda js: js.publish(subject, advisory))

    decide(dead_letters, queue)

    assert queued(queue, ADVISORIES) == 0


def test_replayed_dead_letter_is_delivered_again(
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
    worker.report(worker.finished(old, body=b"of the first time"))
    store_all(store, queue)
    assert Invocation.objects.get().state == "Queued"
    worker.serve_one()
    store_all(store, queue)

    row.refresh_from_db()
    assert (row.state, row.publications) == ("Succeeded", 2)
    assert bytes(row.result_body or b"") == b"hello"
