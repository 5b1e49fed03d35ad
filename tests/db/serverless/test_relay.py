"""The relay: every accepted invocation is queued, and only once."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now

from serverless.loops.relay import Relay
from serverless.models import Invocation
from serverless.queue.errors import QueueError, QueueUnavailable
from serverless.queue.gateway import Queue
from serverless.queue.names import INVOCATIONS
from serverless.queue.values import OutgoingInvocation, PublishResult, PublishStatus
from serverless.services.invocations import invocation_cancel
from serverless.services.outbox import outbox_claim, outbox_published, outbox_rejected
from tests.factories.serverless import Worker, accept, function_row, queued
from tests.fakes.cluster import Killed
from tests.fakes.queue_server import QueueServer

pytestmark = pytest.mark.django_db


def lapse() -> None:
    """Let the claims of killed relays expire."""
    Invocation.objects.update(relay_after=Now())


def test_accepted_invocation_is_delivered_unchanged(relay: Relay, queue: Queue) -> None:
    function = function_row()
    worker = Worker(queue, function)
    row = accept(
        function,
        "aGVsbG8A/w==",
        payloadEncoding="base64",
        headers={"X-Trace": "a: b"},
        contentType="application/octet-stream",
        timeoutSeconds=7,
    )

    relay.publish()

    message = worker.read(worker.take_one())
    assert (message.key, message.publication, message.invocation_id) == (
        row.pk,
        1,
        row.invocation_id,
    )
    assert (message.payload, message.headers) == (b"hello\0\xff", {"X-Trace": "a: b"})
    assert (message.content_type, message.timeout_seconds) == ("application/octet-stream", 7)
    row.refresh_from_db()
    assert row.published_at is not None
    assert row.stream_sequence == 1


def test_invocation_accepted_during_outage_is_queued_afterwards(
    relay: Relay, queue: Queue, queue_server: QueueServer
) -> None:
    function = function_row()
    queue_server.kill()
    for _ in range(3):
        accept(function)
    with pytest.raises(QueueError):
        relay.publish()

    queue_server.start()
    publish_when_back(relay, queue)

    assert queued(queue) == 3
    assert not Invocation.objects.filter(published_at=None).exists()


def publish_when_back(relay: Relay, queue: Queue) -> None:
    """Publish as soon as the connection is restored."""
    back = threading.Event()
    deadline = threading.Timer(10, back.set)
    deadline.start()
    while not back.is_set():
        try:
            queue.last_sequence(INVOCATIONS)
            break
        except QueueError:
            back.wait(0.05)
    deadline.cancel()
    relay.publish()


@pytest.mark.parametrize("dies", ["before it publishes", "after it published"])
def test_killed_relay_publishes_each_invocation_once(
    dies: str, relay: Relay, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = function_row()
    for _ in range(5):
        accept(function)
    real = queue.publish

    def die(outgoing: Sequence[OutgoingInvocation]) -> list[PublishResult]:
        if dies == "after it published":
            real(outgoing)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(queue, "publish", die)
        with pytest.raises(Killed):
            relay.publish()
    lapse()
    relay.publish()

    assert queued(queue) == 5
    assert not Invocation.objects.filter(published_at=None).exists()


def test_unconfirmed_publish_is_repeated_once(
    relay: Relay, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept(function_row())
    real = queue.publish

    def forget(outgoing: Sequence[OutgoingInvocation]) -> list[PublishResult]:
        real(outgoing)
        return [PublishResult(PublishStatus.UNKNOWN) for _ in outgoing]

    with monkeypatch.context() as patch:
        patch.setattr(queue, "publish", forget)
        with pytest.raises(QueueUnavailable):
            relay.publish()
    relay.publish()

    assert queued(queue) == 1
    assert Invocation.objects.get().stream_sequence == 1


def test_deleted_streams_are_created_again(relay: Relay, queue: Queue) -> None:
    relay.step()
    accept(function_row())
    queue.call(lambda js: js.delete_stream(INVOCATIONS))
    with pytest.raises(QueueUnavailable):
        relay.publish()

    relay.step()

    assert queued(queue) == 1


def test_full_queue_of_one_function_does_not_delay_others(
    relay: Relay, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, other = function_row(), function_row()
    limit_messages(queue, 1)
    for _ in range(2):
        accept(full)
    accept(other)

    relay.publish()

    assert queued(queue) == 2
    refused = Invocation.objects.get(published_at=None)
    assert refused.function == full
    assert relay.publish() == 0
    limit_messages(queue, 2)
    lapse()
    relay.publish()
    assert queued(queue) == 3


def test_new_invocations_are_published_before_rejected_ones(cluster: object) -> None:
    full, other = function_row(), function_row()
    refused = [accept(full) for _ in range(3)]
    outbox_rejected(refused)
    lapse()
    fresh = accept(other)

    assert [row.pk for row in outbox_claim(2)] == [fresh.pk, refused[0].pk]


def limit_messages(queue: Queue, most: int) -> None:
    """Limit the number of messages of one function in the stream."""

    async def change(js: Any) -> None:
        info = await js.stream_info(INVOCATIONS)
        await js.update_stream(info.config.evolve(max_msgs_per_subject=most))

    queue.call(change)


def test_invocation_cancelled_during_publish_is_deleted(
    relay: Relay, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = function_row()
    row = accept(function)
    real = queue.publish

    def cancel_then_publish(outgoing: Sequence[OutgoingInvocation]) -> list[PublishResult]:
        invocation_cancel(
            tenant=function.tenant, invocation_id=row.invocation_id, operation_id="c-1"
        )
        return real(outgoing)

    monkeypatch.setattr(queue, "publish", cancel_then_publish)
    relay.publish()

    assert queued(queue) == 0
    row.refresh_from_db()
    assert row.state == "Cancelled"


def test_duplicate_after_window_is_deleted(relay: Relay, queue: Queue) -> None:
    row = accept(function_row())
    relay.publish()

    assert outbox_published([(row, 1)]) == []
    assert outbox_published([(row, 2)]) == [2]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_two_relays_publish_each_invocation_once(cluster: object, queue: Queue) -> None:
    function = function_row()
    for _ in range(40):
        accept(function)
    taken: list[int] = []
    begin = threading.Barrier(2)

    def claim() -> None:
        begin.wait(10)
        taken.extend(row.pk for row in outbox_claim(30))
        connection.close()

    together(claim, claim)

    assert len(taken) == len(set(taken))
    assert len(taken) >= 30


def together(*calls: Callable[[], None]) -> None:
    """Run the calls concurrently and wait for them."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_acceptance_wakes_relay(
    relay: Relay, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serverless.loops.relay.BACKSTOP_SECONDS", 15.0)
    function = function_row()
    listens, is_published = threading.Event(), threading.Event()

    def work() -> None:
        relay.step()
        listens.set()
        relay.step()
        relay.publish()
        is_published.set()
        connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    assert listens.wait(10)
    accept(function)

    assert is_published.wait(10)
    thread.join(20)
    assert queued(queue) == 1
