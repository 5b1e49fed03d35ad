"""What workers say: stored once, in order, and only from whoever was given the invocation."""

from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from django.db import DataError, OperationalError, connection

from gpuplatform.clock import now
from serverless import results
from serverless.models import Invocation
from serverless.phases import FailureClass
from serverless.queue.gateway import Queue, Received
from serverless.queue.names import RESULTS
from serverless.relay import Relay
from serverless.results import ResultStore
from serverless.services import (
    Stored,
    invocation_cancel,
    invocation_dead_letter,
    invocation_replay,
    reports_store,
)
from tests.factories.serverless import Worker, accept, function_row, queued, store_all, tenant_row
from tests.fakes.cluster import Killed

pytestmark = pytest.mark.django_db


def given_to_a_worker(relay: Relay, queue: Queue) -> tuple[Invocation, Worker, Received]:
    """Return an invocation, and the worker that has just been given its message."""
    function = function_row()
    row = accept(function)
    relay.publish()
    worker = Worker(queue, function)
    return row, worker, worker.take_one()


def settled(row: Invocation) -> Invocation:
    """Return the row as it is by now."""
    return Invocation.objects.get(pk=row.pk)


def test_invocation_is_answered(relay: Relay, store: ResultStore, queue: Queue) -> None:
    function = function_row()
    row = accept(function, "hello")
    relay.publish()
    worker = Worker(queue, function)

    worker.serve_one()
    store_all(store, queue)

    row = settled(row)
    assert (row.state, row.failure_class, row.status_code) == ("Succeeded", "", 200)
    assert (bytes(row.result_body or b""), row.result_bytes, row.is_truncated) == (
        b"hello",
        5,
        False,
    )
    assert (row.attempts, row.worker) == (1, "worker-1")
    assert row.started_at is not None
    assert row.completed_at is not None
    assert row.accepted_at <= row.started_at <= row.completed_at
    assert (queued(queue, RESULTS), queued(queue)) == (0, 0)


def test_begun_invocation_runs(relay: Relay, store: ResultStore, queue: Queue) -> None:
    row, worker, received = given_to_a_worker(relay, queue)

    worker.say(worker.started(received))
    store_all(store, queue)

    assert (settled(row).state, settled(row).attempts) == ("Running", 1)


def test_start_after_the_end_changes_nothing(
    relay: Relay, store: ResultStore, queue: Queue
) -> None:
    row, worker, received = given_to_a_worker(relay, queue)

    worker.say(worker.finished(received))
    store_all(store, queue)
    before = settled(row)
    worker.say(worker.started(received, attempt=2))
    store_all(store, queue)

    assert Invocation.objects.filter(pk=row.pk).values().get() == _values(before)
    assert queued(queue, RESULTS) == 0


def _values(row: Invocation) -> dict[str, Any]:
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


FAILED: dict[str, Any] = {
    "state": "Failed",
    "failure_class": "framework_error",
    "error": "It broke.",
    "status_code": 500,
}


@pytest.mark.parametrize("order", [1, -1], ids=["in order", "the other way round"])
@pytest.mark.parametrize(
    ("ends", "stays"),
    [
        ([{"body": b"one"}, {"body": b"two"}], 2),
        ([{"body": b"one"}, FAILED], 1),
        ([FAILED, {"body": b"two"}], 2),
        ([FAILED, {**FAILED, "error": "It broke again."}], 2),
    ],
    ids=["two answers", "answer and failure", "failure and answer", "two failures"],
)
def test_of_two_ends_the_same_one_stays_in_either_order(
    ends: list[dict[str, Any]],
    stays: int,
    order: int,
    relay: Relay,
    store: ResultStore,
    queue: Queue,
) -> None:
    row, worker, received = given_to_a_worker(relay, queue)
    said = [
        worker.finished(received, attempt=number, worker=f"worker-{number}", **end)
        for number, end in enumerate(ends, 1)
    ]

    for end in said[::order]:
        worker.say(end)
        store_all(store, queue)

    found = settled(row)
    end = said[stays - 1]
    assert (found.result_attempt, found.worker) == (stays, f"worker-{stays}")
    assert (found.state, found.error) == (end.state, end.error)
    assert bytes(found.result_body or b"") == end.body
    assert queued(queue, RESULTS) == 0


def test_end_that_a_worker_says_stands_above_a_dead_letter(
    relay: Relay, store: ResultStore, queue: Queue
) -> None:
    row, worker, received = given_to_a_worker(relay, queue)
    invocation_dead_letter(row.pk, row.publications, FailureClass.RETRY_EXHAUSTED, "Given up.")

    worker.say(worker.finished(received, body=b"late"))
    store_all(store, queue)

    found = settled(row)
    assert (found.state, found.failure_class, found.error) == ("Succeeded", "", "")
    assert bytes(found.result_body or b"") == b"late"


def test_end_of_an_earlier_publication_changes_no_replay(
    relay: Relay, store: ResultStore, queue: Queue
) -> None:
    row, worker, received = given_to_a_worker(relay, queue)
    invocation_dead_letter(row.pk, row.publications, FailureClass.RETRY_EXHAUSTED, "Given up.")
    invocation_replay(tenant=row.tenant, invocation_id=row.invocation_id, operation_id="replay-1")

    worker.say(worker.finished(received, body=b"late"))
    store_all(store, queue)

    assert (settled(row).state, settled(row).result_body) == ("Queued", None)


def test_start_of_an_older_attempt_takes_no_worker_s_place(
    relay: Relay, store: ResultStore, queue: Queue
) -> None:
    row, worker, received = given_to_a_worker(relay, queue)

    for attempt in (2, 1):
        worker.say(worker.started(received, attempt=attempt, worker=f"worker-{attempt}"))
        store_all(store, queue)

    assert (settled(row).attempts, settled(row).worker) == (2, "worker-2")


def test_two_results_in_one_batch_the_newer_attempt_counts(
    relay: Relay, store: ResultStore, queue: Queue
) -> None:
    row, worker, received = given_to_a_worker(relay, queue)

    worker.say(
        worker.started(received),
        worker.finished(received, attempt=2, body=b"two"),
        worker.finished(received, body=b"one"),
    )
    store_all(store, queue)

    assert bytes(settled(row).result_body or b"") == b"two"


def test_result_of_a_cancelled_invocation_is_dropped(
    relay: Relay, store: ResultStore, queue: Queue
) -> None:
    row, worker, received = given_to_a_worker(relay, queue)
    invocation_cancel(tenant=row.tenant, invocation_id=row.invocation_id, operation_id="cancel-1")

    worker.say(worker.started(received), worker.finished(received))
    store_all(store, queue)

    assert (settled(row).state, settled(row).result_body) == ("Cancelled", None)
    assert queued(queue, RESULTS) == 0


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"state": "Failed", "failure_class": "framework_error", "status_code": 500}, "Failed"),
        (
            {"state": "Expired", "failure_class": "framework_timeout", "status_code": None},
            "Expired",
        ),
    ],
    ids=["the function failed", "its time was over"],
)
def test_failure_keeps_its_class(
    changes: dict[str, Any], state: str, relay: Relay, store: ResultStore, queue: Queue
) -> None:
    row, worker, received = given_to_a_worker(relay, queue)

    worker.say(worker.finished(received, error="It broke.", **changes))
    store_all(store, queue)

    found = settled(row)
    assert (found.state, found.failure_class) == (state, changes["failure_class"])
    assert found.error == "It broke."


def test_large_answer_is_truncated_and_its_size_kept(
    relay: Relay, store: ResultStore, queue: Queue
) -> None:
    row, worker, received = given_to_a_worker(relay, queue)
    kept = b"\xff" * (1024 * 1024)

    worker.say(worker.finished(received, body=kept, size=10**8, truncated=True))
    store_all(store, queue)

    found = settled(row)
    assert (found.result_bytes, found.is_truncated) == (10**8, True)
    assert bytes(found.result_body or b"") == kept


def test_times_of_a_worker_with_a_wrong_clock_stay_in_order(
    relay: Relay, store: ResultStore, queue: Queue
) -> None:
    row, worker, received = given_to_a_worker(relay, queue)
    wrong = {
        "started_at": now() + timedelta(days=2),
        "completed_at": now() - timedelta(days=2),
    }

    worker.say(worker.finished(received, **wrong))
    store_all(store, queue)

    found = settled(row)
    assert found.started_at is not None
    assert found.completed_at is not None
    assert found.accepted_at <= found.started_at <= found.completed_at <= now()


Broken = Callable[[Worker, Received], bytes]


def _changed(**changes: Any) -> Broken:
    return lambda worker, received: worker.finished(received, **changes).encode()


@pytest.mark.parametrize(
    "broken",
    [
        lambda _worker, _received: b"",
        lambda _worker, _received: b"\xff\xfe",
        lambda _worker, _received: b"[]",
        lambda _worker, _received: b'{"type": "finished"}',
        lambda worker, received: worker.finished(received).encode().replace(b"finished", b"gone"),
        lambda worker, received: (
            worker.finished(received).encode().replace(b"Succeeded", b"Queued")
        ),
        lambda worker, received: worker.finished(received).encode().replace(b'"aGVsbG8="', b'"!"'),
        _changed(receipt="0" * 64),
        _changed(publication=2),
        _changed(key=10**12),
        _changed(receipt="ä" * 64),
    ],
    ids=[
        "nothing",
        "no text",
        "no object",
        "without its fields",
        "an unknown type",
        "an unknown state",
        "no base64",
        "another receipt",
        "another publication",
        "no such invocation",
        "a receipt that is no ASCII",
    ],
)
def test_malformed_report_costs_the_good_ones_nothing(
    broken: Broken, relay: Relay, store: ResultStore, queue: Queue
) -> None:
    function = function_row()
    rows = [accept(function, "hello") for _ in range(3)]
    relay.publish()
    worker = Worker(queue, function)
    Worker(queue, function).function.spec["maxWorkers"] = 3
    received = [worker.take_one()]

    worker.say_raw(broken(worker, received[0]))
    worker.acknowledge(received[0])
    for _ in rows[1:]:
        worker.serve_one()
    store_all(store, queue)

    assert [settled(row).state for row in rows] == ["Queued", "Succeeded", "Succeeded"]
    assert queued(queue, RESULTS) == 0


def test_worker_cannot_speak_for_another_function(
    relay: Relay, store: ResultStore, queue: Queue
) -> None:
    victim, thief = function_row(), function_row(tenant=tenant_row("other"))
    row = accept(victim)
    relay.publish()
    own = Worker(queue, victim)
    forged = own.finished(own.take_one(), body=b"forged")

    Worker(queue, thief).say(forged)
    store_all(store, queue)

    assert settled(row).state == "Queued"
    assert queued(queue, RESULTS) == 0


@pytest.mark.parametrize("dies", ["before the transaction", "after the transaction"])
def test_killed_store_stores_each_result_once(
    dies: str, relay: Relay, store: ResultStore, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = function_row()
    row = accept(function)
    relay.publish()
    worker = Worker(queue, function)
    worker.serve_one()

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        if dies == "before the transaction":
            patch.setattr(results, "reports_store", die)
        else:
            patch.setattr(queue, "acknowledge", die)
        with pytest.raises(Killed):
            store.step()
    stored = settled(row)
    give_back(queue)
    store_all(store, queue)

    assert settled(row).state == "Succeeded"
    if dies == "after the transaction":
        assert _values(settled(row)) == _values(stored)


def test_two_stores_share_the_results(relay: Relay, queue: Queue) -> None:
    function = function_row()
    rows = [accept(function) for _ in range(4)]
    relay.publish()
    worker = Worker(queue, function)
    for _ in rows:
        worker.serve_one()
    stores = [ResultStore(queue, wait_seconds=0.1) for _ in range(2)]

    while queued(queue, RESULTS):
        for store in stores:
            store.step()

    assert {settled(row).state for row in rows} == {"Succeeded"}


def give_back(queue: Queue) -> None:
    """Let the time be over in which the dead process had its messages."""

    async def change(js: Any) -> None:
        info = await js.consumer_info(RESULTS, "results")
        await js.add_consumer(RESULTS, info.config.evolve(ack_wait=0.1))

    queue._call(change)


def test_database_that_is_away_gets_the_results_later(
    relay: Relay, store: ResultStore, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = function_row()
    row = accept(function)
    relay.publish()
    Worker(queue, function).serve_one()
    monkeypatch.setattr(results, "AGAIN_SECONDS", 0.01)

    def refuse(_: object) -> None:
        raise OperationalError("the server is gone")

    with monkeypatch.context() as patch:
        patch.setattr(results, "reports_store", refuse)
        with pytest.raises(OperationalError):
            store.step()
    store_all(store, queue)

    assert settled(row).state == "Succeeded"


def test_result_that_the_database_does_not_take_costs_the_others_nothing(
    relay: Relay, store: ResultStore, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = function_row()
    bad, good = accept(function, "bad"), accept(function, "good")
    relay.publish()
    worker = Worker(queue, function)
    worker.serve_one()
    worker.serve_one()
    real = reports_store

    def refuse(reports: list[Any]) -> Stored:
        if any(report.key == bad.pk for report in reports):
            raise DataError("value out of range")
        return real(reports)

    monkeypatch.setattr(results, "reports_store", refuse)
    store_all(store, queue)

    assert (settled(bad).state, settled(bad).failure_class) == ("Failed", "result_store_error")
    assert settled(good).state == "Succeeded"


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_row_that_somebody_has_locked_keeps_nobody_else_waiting(
    relay: Relay, store: ResultStore, queue: Queue
) -> None:
    function = function_row()
    held, free = accept(function, "held"), accept(function, "free")
    relay.publish()
    worker = Worker(queue, function)
    worker.serve_one()
    worker.serve_one()
    somebody = connection.copy("somebody")

    with closing(somebody), somebody.cursor() as cursor:
        cursor.execute("BEGIN")
        table = Invocation._meta.db_table
        cursor.execute(f"SELECT 1 FROM {table} WHERE id = %s FOR UPDATE", [held.pk])
        store.step()
        assert [settled(row).state for row in (held, free)] == ["Queued", "Succeeded"]
        cursor.execute("ROLLBACK")
    store_all(store, queue)

    assert settled(held).state == "Succeeded"


def test_report_of_a_relay_that_died_records_that_it_was_queued(
    relay: Relay, store: ResultStore, queue: Queue
) -> None:
    function = function_row()
    row = accept(function)
    relay.publish()
    Invocation.objects.update(published_at=None, stream_sequence=None)
    worker = Worker(queue, function)

    worker.say(worker.started(worker.take_one()))
    store_all(store, queue)

    assert (settled(row).stream_sequence, relay.publish()) == (1, 0)
