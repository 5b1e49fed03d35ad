"""Messages on a real broker."""

from collections.abc import Iterator

import pytest
import redis
from celery import Celery, current_app
from django.conf import settings
from pytest_django import DjangoCaptureOnCommitCallbacks

from gpuplatform import queueing
from gpuplatform.kube.kinds import GPU_UNIT
from gpuplatform.process_local import ProcessThreads
from gpuplatform.processes.controller import WATCHED
from gpuplatform.queueing import (
    MAX_QUEUED,
    Queue,
    Urgency,
    enqueue,
    enqueue_missed,
    keys_of,
    waiting_messages,
)
from tests.factories.unit_resources import accept_seed
from units.phases import STOCK_NAMESPACE

TASK = "operations.run_operation"


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[redis.Redis]:
    """The broker without messages and without a pause after a failure."""
    monkeypatch.setattr(queueing._Pause, "until", 0.0)
    monkeypatch.setattr(queueing, "_SENDER", ProcessThreads(1, "hints"))
    client = redis.Redis.from_url(settings.CELERY_BROKER_URL)
    client.flushdb()
    yield client
    client.flushdb()
    client.close()


def test_an_empty_queue_has_no_messages(broker: redis.Redis) -> None:
    assert waiting_messages(Queue.OPERATIONS) == 0


def test_each_hint_is_one_message(broker: redis.Redis) -> None:
    enqueue_missed(TASK, [1, 2, 3], queue=Queue.OPERATIONS)

    assert waiting_messages(Queue.OPERATIONS) == 3


def test_messages_that_start_work_are_delivered_after_those_that_finish_it(
    broker: redis.Redis,
) -> None:
    enqueue(TASK, 1, queue=Queue.RECONCILE, urgency=Urgency.LAST)
    enqueue(TASK, 2, queue=Queue.RECONCILE, urgency=Urgency.LATER)
    enqueue(TASK, 3, queue=Queue.RECONCILE)

    with current_app.connection_for_read() as connection:
        queue = connection.SimpleQueue(Queue.RECONCILE.value)
        taken = [queue.get(timeout=5) for _ in range(3)]
        for message in taken:
            message.ack()
        queue.close()

    assert [message.payload[0] for message in taken] == [[3], [2], [1]]
    assert waiting_messages(Queue.RECONCILE) == 0


@pytest.mark.django_db
@pytest.mark.usefixtures("cluster")
def test_seedings_are_delivered_after_requests_of_users(
    broker: redis.Redis, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        accept_seed()

    waiting = {key: int(broker.llen(key)) for key in keys_of(Queue.OPERATIONS)}
    assert list(waiting.values()) == [0, 0, 1]


def test_events_of_stock_are_delivered_after_those_of_active_units() -> None:
    [units] = [watched for watched in WATCHED if watched.kind == GPU_UNIT]

    assert units.urgency(STOCK_NAMESPACE) == Urgency.LAST
    assert units.urgency("runtime-instance") == Urgency.NEXT


def test_messages_of_every_urgency_count_as_queued(broker: redis.Redis) -> None:
    for urgency in Urgency:
        enqueue(TASK, 1, queue=Queue.RECONCILE, urgency=urgency)

    assert waiting_messages(Queue.RECONCILE) == 3
    assert sum(int(broker.llen(key)) for key in keys_of(Queue.RECONCILE)) == 3


def test_sweeps_do_not_enqueue_beyond_the_limit(broker: redis.Redis) -> None:
    due = list(range(MAX_QUEUED + 100))

    enqueue_missed(TASK, due, queue=Queue.OPERATIONS)
    enqueue_missed(TASK, due, queue=Queue.OPERATIONS)

    assert waiting_messages(Queue.OPERATIONS) == MAX_QUEUED


def test_an_unavailable_broker_fails_no_caller_and_is_not_tried_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queueing._Pause, "until", 0.0)
    unreachable = Celery("unreachable", broker="redis://127.0.0.1:1/0", set_as_current=False)
    unreachable.conf.broker_transport_options = settings.CELERY_BROKER_TRANSPORT_OPTIONS
    monkeypatch.setattr(queueing, "current_app", unreachable)

    sent = enqueue(TASK, 1, queue=Queue.OPERATIONS)
    paused = queueing._Pause.until
    waiting = waiting_messages(Queue.OPERATIONS)

    assert sent is False
    assert paused > 0
    assert waiting == 0
