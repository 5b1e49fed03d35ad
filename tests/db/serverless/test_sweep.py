"""The sweep repairs lost messages and advisories, and changes nothing else."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from serverless.loops.relay import Relay
from serverless.loops.result_store import ResultStore
from serverless.loops.sweep import Sweep
from serverless.models import Function, Invocation
from serverless.queue.errors import QueueError
from serverless.queue.gateway import Queue
from serverless.queue.names import ADVISORIES, INVOCATIONS, consumer_name, invocation_subject
from serverless.services.endings import MAX_PUBLICATIONS
from tests.db.serverless.test_dead_letters import exhaust
from tests.factories.serverless import (
    Worker,
    accept,
    function_row,
    queued,
    store_all,
    tenant_row,
)
from tests.fakes.queue_server import QueueServer

pytestmark = pytest.mark.django_db


@pytest.fixture
def sweep(queue: Queue) -> Sweep:
    """A sweep without suspects."""
    return Sweep(queue)


def age(seconds: float = 60) -> None:
    """Set the publication of every invocation to a time in the past."""
    Invocation.objects.update(published_at=Now() - timedelta(seconds=seconds))


def lose_advisories(queue: Queue) -> None:
    """Delete all advisories."""
    queue.call(lambda js: js.purge_stream(ADVISORIES))


def sweep_twice(sweep: Sweep) -> None:
    """Suspect, then confirm."""
    sweep.step()
    sweep.step()


def test_sweep_replaces_lost_advisory(relay: Relay, sweep: Sweep, queue: Queue) -> None:
    function = function_row(maxDeliver=2)
    row = accept(function)
    relay.publish()
    exhaust(Worker(queue, function), queue)
    lose_advisories(queue)

    sweep_twice(sweep)

    row.refresh_from_db()
    assert (row.state, row.failure_class) == ("DeadLettered", "retry_exhausted")
    assert queued(queue) == 0


def test_undelivered_result_prevents_dead_letter(
    relay: Relay, sweep: Sweep, store: ResultStore, queue: Queue
) -> None:
    function = function_row(maxDeliver=1)
    row = accept(function)
    relay.publish()
    worker = Worker(queue, function)
    received = exhaust(worker, queue)
    lose_advisories(queue)
    worker.report(worker.finished(received))

    sweep_twice(sweep)
    store_all(store, queue)
    sweep_twice(sweep)

    row.refresh_from_db()
    assert row.state == "Succeeded"
    assert queued(queue) == 0


@pytest.mark.parametrize("in_hands", ["waits", "is in work", "waits for its next delivery"])
def test_invocation_in_progress_is_unchanged(
    in_hands: str, relay: Relay, sweep: Sweep, queue: Queue
) -> None:
    function = function_row()
    row = accept(function)
    relay.publish()
    worker = Worker(queue, function)
    if in_hands != "waits":
        received = worker.take_one()
        if in_hands != "is in work":
            queue.postpone([received], 60)
    age(seconds=7200)

    sweep_twice(sweep)

    row.refresh_from_db()
    assert (row.state, row.publications, queued(queue)) == ("Queued", 1, 1)


def test_lost_message_is_published_again(
    relay: Relay, sweep: Sweep, store: ResultStore, queue: Queue
) -> None:
    function = function_row()
    rows = [accept(function) for _ in range(3)]
    relay.publish()
    age()
    queue.delete(2)

    sweep_twice(sweep)
    relay.publish()

    assert queued(queue) == 3
    assert [row.publications for row in Invocation.objects.order_by("id")] == [1, 2, 1]
    worker = Worker(queue, function)
    for _ in rows:
        worker.serve_one()
    store_all(store, queue)
    assert not Invocation.objects.exclude(state="Succeeded").exists()


def test_started_invocation_with_lost_message_remains_running(
    relay: Relay, sweep: Sweep, store: ResultStore, queue: Queue
) -> None:
    function = function_row()
    row = accept(function)
    relay.publish()
    worker = Worker(queue, function)
    received = worker.take_one()
    worker.report(worker.started(received))
    store_all(store, queue)
    age()
    queue.delete(received.metadata.sequence.stream)

    sweep_twice(sweep)
    relay.publish()

    row.refresh_from_db()
    assert (row.state, row.publications, queued(queue)) == ("Running", 2, 1)


def test_acknowledged_invocation_with_undelivered_result_is_not_republished(
    relay: Relay, sweep: Sweep, store: ResultStore, queue: Queue
) -> None:
    function = function_row()
    row = accept(function)
    relay.publish()
    Worker(queue, function).serve_one()
    age()

    sweep_twice(sweep)
    store_all(store, queue)
    sweep_twice(sweep)

    row.refresh_from_db()
    assert (row.state, row.publications) == ("Succeeded", 1)


def test_lost_streams_are_filled_again(relay: Relay, sweep: Sweep, queue: Queue) -> None:
    function = function_row()
    for _ in range(3):
        accept(function)
    relay.publish()
    age()
    queue.call(lambda js: js.delete_stream(INVOCATIONS))

    sweep_twice(sweep)
    relay.publish()

    assert queued(queue) == 3
    assert queue.backlog("default", function.pk) is not None


def test_repeatedly_lost_invocation_is_dead_lettered(
    relay: Relay, sweep: Sweep, queue: Queue
) -> None:
    row = accept(function_row())
    relay.publish()
    Invocation.objects.update(publications=MAX_PUBLICATIONS)
    age()
    queue.delete(1)

    sweep_twice(sweep)

    row.refresh_from_db()
    assert (row.state, row.failure_class) == ("DeadLettered", "dispatch_error")


def test_sweep_changes_nothing_while_queue_is_unavailable(
    relay: Relay, sweep: Sweep, queue: Queue, queue_server: QueueServer
) -> None:
    row = accept(function_row())
    relay.publish()
    age(seconds=7200)
    queue_server.kill()

    for _ in range(2):
        with pytest.raises(QueueError):
            sweep.step()

    row.refresh_from_db()
    assert (row.state, row.publications) == ("Queued", 1)


def test_lost_consumer_is_created_again(relay: Relay, sweep: Sweep, queue: Queue) -> None:
    function = function_row()
    worker = Worker(queue, function)
    accept(function)
    relay.publish()
    name = consumer_name(function.pk)
    queue.call(lambda js: js.delete_consumer(INVOCATIONS, name))

    sweep.step()

    assert worker.read(worker.take_one()).payload == b"hello"


def test_message_without_open_invocation_is_deleted(
    relay: Relay, sweep: Sweep, queue: Queue
) -> None:
    function = function_row(maxDeliver=1)
    subject = invocation_subject("default", function.pk)
    queue.call(lambda js: js.publish(subject, b"put there by hand"))
    worker = Worker(queue, function)
    accept(function)
    relay.publish()
    for _ in range(2):
        queue.postpone([worker.take_one()], 0.001)
    assert worker.take(1, seconds=0.3) == []
    lose_advisories(queue)
    Invocation.objects.update(state="Succeeded", completed_at=Now())

    sweep.step()

    assert queued(queue) == 0


def test_exhausted_message_next_to_running_one_is_found_by_last_start(
    relay: Relay, sweep: Sweep, store: ResultStore, queue: Queue
) -> None:
    function = function_row(maxDeliver=1, maxWorkers=2)
    dead, alive = accept(function, "dead"), accept(function, "alive")
    relay.publish()
    worker = Worker(queue, function)
    first = worker.take_one()
    worker.report(worker.started(first))
    store_all(store, queue)
    queue.postpone([first], 0.001)
    assert worker.read(worker.take_one()).key == alive.pk
    assert worker.take(1, seconds=0.3) == []
    lose_advisories(queue)

    sweep_twice(sweep)
    dead.refresh_from_db()
    assert dead.state == "Running"
    Invocation.objects.filter(pk=dead.pk).update(attempted_at=Now() - timedelta(hours=1))
    sweep_twice(sweep)

    dead.refresh_from_db()
    alive.refresh_from_db()
    assert (dead.state, alive.state) == ("DeadLettered", "Queued")


def test_invocation_of_deleted_function_ends(sweep: Sweep, cluster: Any) -> None:
    function = function_row()
    row = accept(function)
    Function.objects.update(deleted_at=Now())

    sweep.step()

    row.refresh_from_db()
    assert row.state == "Cancelled"


def test_queue_objects_of_deleted_function_are_removed(
    relay: Relay, sweep: Sweep, queue: Queue
) -> None:
    gone = [function_row("has-a-message"), function_row("has-a-consumer")]
    kept = function_row("lives", tenant=tenant_row("other"))
    accept(gone[0])
    accept(kept)
    relay.publish()
    for function in (*gone, kept):
        Worker(queue, function)
    unknown = function_row("of-another-database")
    number = unknown.pk
    Worker(queue, unknown)
    unknown.delete()
    Function.objects.filter(pk__in=[one.pk for one in gone]).update(deleted_at=Now())

    sweep.step()

    assert queue.functions(known=0) == {("other", kept.pk), ("default", number)}
    assert queued(queue) == 1
    assert queue.backlog("default", gone[0].pk) is None
    backlog = queue.backlog("other", kept.pk)
    assert backlog is not None
    assert backlog.pending == 1
