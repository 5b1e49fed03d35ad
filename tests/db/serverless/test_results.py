"""The result store: reports are stored once, in order, and only from the invocation's worker."""

from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from django.db import DataError, OperationalError, connection
from nats.aio.msg import Msg

from gpuplatform.clock import now
from serverless.loops import result_store as results
from serverless.loops.relay import Relay
from serverless.loops.result_store import ResultStore
from serverless.models import Invocation
from serverless.phases import FailureClass
from serverless.queue.gateway import Queue
from serverless.queue.names import RESULTS
from serverless.services.endings import invocation_dead_letter
from serverless.services.invocations import invocation_cancel, invocation_replay
from serverless.services.reports import StoreResult, reports_store
from tests.factories.serverless import Worker, accept, function_row, queued, store_all, tenant_row
from tests.fakes.cluster import Killed

pytestmark = pytest.mark.django_db


def given_to_a_worker(relay: Relay, queue: Queue) -> tuple[Invocation, Worker, Msg]:
    """Return an invocation, its worker, and the delivery of its message."""
    function = function_row()
    row = accept(function)
    relay.publish()
    worker = Worker(queue, function)
    return row, worker, worker.take_one()


def settled(row: Invocation) -> Invocation:
    """Return the current row."""
    return Invocation.objects.get(pk=row.pk)


def test_result_of_invocation_is_stored(relay: Relay, store: ResultStore, queue: Queue) -> None:
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


def test_started_invocation_is_running(relay: Relay, store: ResultStore, queue: Queue) -> None:
    row, worker, received = given_to_a_worker(relay, queue)

    worker.report(worker.started(received))
    store_all(store, queue)

    assert (settled(row).state, settled(row).attempts) == ("Running", 1)


def test_start_after_end_changes_nothing(relay: Relay, store: ResultStore, queue: Queue) -> None:
    row, worker, received = given_to_a_worker(relay, queue)

    worker.report(worker.finished(received))
    store_all(store, queue)
    before = settled(row)
    worker.report(worker.started(received, attempt=2))
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
def test_same_result_wins_in_either_order(
    ends: list[dict[str, Any]],
    stays: int,
    order: int,
    relay: Relay,
    store: ResultStore,
    queue: Queue,
) -> None:
    row, worker, received = given_to_a_worker(relay, queue)
    reports = [
        worker.finished(received, attempt=number, worker=f"worker-{number}", **end)
        for number, end in enumerate(ends, 1)
    ]

    for end in reports[::order]:
        worker.report(end)
        store_all(store, queue)

    found = settled(row)
    end = reports[stays - 1]
    assert (found.result_attempt, found.worker) == (stays, f"worker-{stays}")
    assert (found.state, found.error) == (end.state, end.error)
    assert bytes(found.result_body or b"") == end.body
    assert queued(queue, RESULTS) == 0


def test_result_replaces_dead_letter(relay: Relay, store: ResultStore, queue: Queue) -> None:
    row, worker, received = given_to_a_worker(relay, queue)
    invocation_dead_letter(row.pk, row.publications, FailureClass.RETRY_EXHAUSTED, "Given up.")

    worker.report(worker.finished(received, body=b"late"))
    store_all(store, queue)

    found = settled(row)
    assert (found.state, found.failure_class, found.error) == ("Succeeded", "", "")
    assert bytes(found.result_body or b"") == b"late"


def test_result_of_earlier_publication_is_dropped(
    relay: Relay, store: ResultStore, queue: Queue
) -> None:
    row, worker, received = given_to_a_worker(relay, queue)
    invocation_dead_letter(row.pk, row.publications, FailureClass.RETRY_EXHAUSTED, "Given up.")
    invocation_replay(tenant=row.tenant, invocation_id=row.invocation_id, operation_id="replay-1")

    worker.report(worker.finished(received, body=b"late"))
    store_all(store, queue)

    assert (settled(row).state, settled(row).result_body) == ("Queued", None)


def test_start_of_older_attempt_keeps_worker(
    relay: Relay, store: ResultStore, queue: Queue
) -> None:
    row, worker, received = given_to_a_worker(relay, queue)

    for attempt in (2, 1):
        worker.report(worker.started(received, attempt=attempt, worker=f"worker-{attempt}"))
        store_all(store, queue)

    assert (settled(row).attempts, settled(row).worker) == (2, "worker-2")


def test_newer_attempt_in_batch_wins(relay: Relay, store: ResultStore, queue: Queue) -> None:
    row, worker, received = given_to_a_worker(relay, queue)

    worker.report(
        worker.started(received),
        worker.finished(received, attempt=2, body=b"two"),
        worker.finished(received, body=b"one"),
    )
    store_all(store, queue)

    assert bytes(settled(row).result_body or b"") == b"two"


def test_result_of_cancelled_invocation_is_dropped(
    relay: Relay, store: ResultStore, queue: Queue
) -> None:
    row, worker, received = given_to_a_worker(relay, queue)
    invocation_cancel(tenant=row.tenant, invocation_id=row.invocation_id, operation_id="cancel-1")

    worker.report(worker.started(received), worker.finished(received))
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
def test_failure_class_is_stored(
    changes: dict[str, Any], state: str, relay: Relay, store: ResultStore, queue: Queue
) -> None:
    row, worker, received = given_to_a_worker(relay, queue)

    worker.report(worker.finished(received, error="It broke.", **changes))
    store_all(store, queue)

    found = settled(row)
    assert (found.state, found.failure_class) == (state, changes["failure_class"])
    assert found.error == "It broke."


def test_cut_success_of_older_worker_is_failure(
    relay: Relay, store: ResultStore, queue: Queue
) -> None:
    row, worker, received = given_to_a_worker(relay, queue)
    kept = b"\xff" * (1024 * 1024)

    worker.report(worker.finished(received, body=kept, size=10**8, truncated=True))
    store_all(store, queue)

    found = settled(row)
    assert (found.state, found.failure_class) == ("Failed", "result_too_large")
    assert (found.result_bytes, found.is_truncated) == (10**8, True)
    assert bytes(found.result_body or b"") == kept


def test_times_of_wrong_clock_are_ordered(relay: Relay, store: ResultStore, queue: Queue) -> None:
    row, worker, received = given_to_a_worker(relay, queue)
    wrong = {
        "started_at": now() + timedelta(days=2),
        "completed_at": now() - timedelta(days=2),
    }

    worker.report(worker.finished(received, **wrong))
    store_all(store, queue)

    found = settled(row)
    assert found.started_at is not None
    assert found.completed_at is not None
    assert found.accepted_at <= found.started_at <= found.completed_at <= now()


Broken = Callable[[Worker, Msg], bytes]


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
def test_malformed_report_does_not_affect_others(
    broken: Broken, relay: Relay, store: ResultStore, queue: Queue
) -> None:
    function = function_row()
    rows = [accept(function, "hello") for _ in range(3)]
    relay.publish()
    worker = Worker(queue, function)
    Worker(queue, function).function.spec["maxWorkers"] = 3
    received = [worker.take_one()]

    worker.publish(broken(worker, received[0]))
    worker.acknowledge(received[0])
    for _ in rows[1:]:
        worker.serve_one()
    store_all(store, queue)

    assert [settled(row).state for row in rows] == ["Queued", "Succeeded", "Succeeded"]
    assert queued(queue, RESULTS) == 0


def test_worker_cannot_report_for_another_function(
    relay: Relay, store: ResultStore, queue: Queue
) -> None:
    victim, thief = function_row(), function_row(tenant=tenant_row("other"))
    row = accept(victim)
    relay.publish()
    own = Worker(queue, victim)
    forged = own.finished(own.take_one(), body=b"forged")

    Worker(queue, thief).report(forged)
    store_all(store, queue)

    assert settled(row).state == "Queued"
    assert queued(queue, RESULTS) == 0


@pytest.mark.parametrize("dies", ["before the transaction", "after the transaction"])
def test_killed_store_stores_result_once(
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


def test_two_stores_share_results(relay: Relay, queue: Queue) -> None:
    function = function_row()
    rows = [accept(function) for _ in range(4)]
    relay.publish()
    worker = Worker(queue, function)
    for _ in rows:
        worker.serve_one()
    stores = [ResultStore(queue) for _ in range(2)]

    while queued(queue, RESULTS):
        for store in stores:
            store.step()

    assert {settled(row).state for row in rows} == {"Succeeded"}


def give_back(queue: Queue) -> None:
    """Shorten the ack wait, so that messages of the killed process are delivered again."""

    async def change(js: Any) -> None:
        info = await js.consumer_info(RESULTS, "results")
        await js.add_consumer(RESULTS, info.config.evolve(ack_wait=0.1))

    queue.call(change)


def test_results_are_stored_after_database_outage(
    relay: Relay, store: ResultStore, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = function_row()
    row = accept(function)
    relay.publish()
    Worker(queue, function).serve_one()
    monkeypatch.setattr(results, "RETRY_SECONDS", 0.01)

    def refuse(_: object) -> None:
        raise OperationalError("the server is gone")

    with monkeypatch.context() as patch:
        patch.setattr(results, "reports_store", refuse)
        with pytest.raises(OperationalError):
            store.step()
    store_all(store, queue)

    assert settled(row).state == "Succeeded"


def test_unstorable_result_does_not_affect_others(
    relay: Relay, store: ResultStore, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = function_row()
    bad, good = accept(function, "bad"), accept(function, "good")
    relay.publish()
    worker = Worker(queue, function)
    worker.serve_one()
    worker.serve_one()
    real = reports_store

    def refuse(reports: list[Any]) -> StoreResult:
        if any(report.key == bad.pk for report in reports):
            raise DataError("value out of range")
        return real(reports)

    monkeypatch.setattr(results, "reports_store", refuse)
    store_all(store, queue)

    assert (settled(bad).state, settled(bad).failure_class) == ("Failed", "result_store_error")
    assert settled(good).state == "Succeeded"


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_locked_row_does_not_delay_others(relay: Relay, store: ResultStore, queue: Queue) -> None:
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


def test_report_records_publication_of_killed_relay(
    relay: Relay, store: ResultStore, queue: Queue
) -> None:
    function = function_row()
    row = accept(function)
    relay.publish()
    Invocation.objects.update(published_at=None, stream_sequence=None)
    worker = Worker(queue, function)

    worker.report(worker.started(worker.take_one()))
    store_all(store, queue)

    assert (settled(row).stream_sequence, relay.publish()) == (1, 0)
