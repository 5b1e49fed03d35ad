"""The fair order of tenants: the next operation of a worker, on PostgreSQL and a real broker."""

import itertools
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from queue import Empty
from typing import Any

import pytest
from celery import current_app
from django.db.models.functions import Now

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.operations import fair_order, registry
from gpuplatform.operations.fair_order import DEPTH, candidates, next_operation
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES, OperationPhase
from gpuplatform.operations.registry import Done, OperationKind, Step, kind_names
from gpuplatform.operations.selectors import operations_due, operations_runnable
from gpuplatform.operations.services import Request, operation_accept
from gpuplatform.operations.tasks import run_operation
from gpuplatform.queueing import Queue
from gpuplatform.reconciliation import gate
from gpuplatform.tenancy.models import Tenant
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import Broker, broker, cluster
from tests.fakes.threads import at_once

__all__ = ["broker", "cluster"]
COMMITTING = pytest.mark.django_db(transaction=True, serialized_rollback=True)
KIND = "toy.change"
WORKERS = 2
BURST = 200
_numbers = itertools.count(1)


class Toy:
    """A kind of operation whose executions are recorded, and can be stopped."""

    def __init__(self) -> None:
        self.executed: list[Operation] = []
        self.in_progress = threading.Semaphore(0)
        self.may_end = threading.Event()
        self.may_end.set()

    def execute(self, _: Cluster, operation: Operation) -> Step:
        self.executed.append(operation)
        self.in_progress.release()
        assert self.may_end.wait(60)
        return Done()

    @property
    def tenants(self) -> list[str]:
        return [one.tenant.name for one in self.executed]


@pytest.fixture
def toy(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Toy]:
    made = Toy()
    kind = OperationKind(KIND, made.execute)
    monkeypatch.setitem(registry._kinds, KIND, kind)
    fair_order.FAIR_ORDER.reset()
    yield made
    made.may_end.set()


def tenant(name: str) -> Tenant:
    return Tenant.objects.get_or_create(name=name, namespace=f"tenant-{name}")[0]


def accept(owner: str, name: str = "") -> Operation:
    number = next(_numbers)
    place = ("Toy", f"tenant-{owner}", name or f"object-{number}")
    request = Request(tenant(owner), f"operation-{number}", KIND, *place)
    return operation_accept(request, prepare=lambda _: number).operation


def columns(operation: Operation, **changes: Any) -> None:
    Operation.objects.filter(pk=operation.pk).update(**changes)


def claimed(operation: Operation, seconds: float = 60) -> None:
    """Let another worker have a lease on the operation, which expires in `seconds`."""
    expires = Now() + timedelta(seconds=seconds)
    columns(operation, phase=OperationPhase.RUNNING, lease_expires_at=expires)


def picked(hinted: int = 0) -> int | None:
    found = next_operation(hinted, kind_names())
    return None if found is None else found.operation


@pytest.mark.django_db
def test_the_oldest_claimable_operation_of_each_tenant_is_a_candidate(toy: Toy) -> None:
    running, expired, blocked, parked, free, later, beta = (
        accept("acme", name) for name in ("a", "b", "a", "c", "d", "e", "f")
    )
    columns(beta, tenant=tenant("beta"))
    claimed(running)
    claimed(expired, seconds=-1)
    columns(parked, due_at=Now() + timedelta(hours=1))

    assert picked() == beta.pk, "acme has a running operation"
    assert {one.operation: one.running for one in candidates(0, kind_names())} == {
        expired.pk: 1,
        beta.pk: 0,
    }
    assert {one.operation for one in candidates(later.pk, kind_names())} == {
        *(expired.pk, later.pk, beta.pk)
    }
    for unclaimable in (running, blocked, parked):
        assert len(candidates(unclaimable.pk, kind_names())) == 2
    assert {one.operation for one in candidates(0, kind_names(), [expired.pk])} == {
        *(free.pk, beta.pk)
    }
    assert candidates(later.pk, ["another.kind"]) == []
    assert candidates(later.pk, []) == []


@pytest.mark.django_db
def test_the_statement_and_the_claim_have_the_same_condition(toy: Toy) -> None:
    """Compares them for every combination of phase, lease, due time, kind and earlier one."""
    options = itertools.product(
        (OperationPhase.PENDING, OperationPhase.RUNNING, OperationPhase.SUCCEEDED),
        (None, -1, 60),
        (-1, 60),
        (KIND, "unknown.kind"),
        (False, True),
    )
    for number, (phase, lease, due, kind, is_second) in enumerate(options):
        name = f"combination-{number}"
        if is_second:
            columns(accept("acme", name), due_at=Now() + timedelta(hours=1))
        one = accept("acme", name)
        is_open = phase in OPEN_PHASES
        columns(
            one,
            phase=phase,
            kind=kind,
            lease_expires_at=None if lease is None else Now() + timedelta(seconds=lease),
            due_at=Now() + timedelta(seconds=due) if is_open else None,
            ended_at=None if is_open else Now(),
        )
    claimable = set(operations_due(1_000, kind_names()))

    for pk in Operation.objects.values_list("pk", flat=True):
        found = {one.operation for one in candidates(pk, kind_names())}
        assert (pk in found) == (pk in claimable), Operation.objects.get(pk=pk).__dict__
    assert 0 < len(claimable) < operations_runnable().count()


@pytest.mark.django_db
def test_a_hinted_operation_behind_many_that_wait_is_found(toy: Toy) -> None:
    claimed(accept("acme", "busy"))
    for _ in range(DEPTH):
        accept("acme", "busy")
    behind = accept("acme", "free")

    assert picked() is None
    assert picked(behind.pk) == behind.pk


@pytest.mark.django_db
def test_operations_that_a_worker_executes_do_not_hide_the_next_one(toy: Toy) -> None:
    for _ in range(DEPTH):
        claimed(accept("acme"))
    following = accept("acme")

    assert picked() == following.pk


@pytest.mark.django_db
def test_operations_of_one_object_remain_serial(toy: Toy) -> None:
    first, second = accept("acme", "a"), accept("acme", "a")

    run_operation(second.pk)
    assert [one.pk for one in toy.executed] == [first.pk], "the hint leads to the first one"
    run_operation(second.pk)
    assert [one.pk for one in toy.executed] == [first.pk, second.pk]


@pytest.mark.django_db
def test_no_operation_that_needs_the_cluster_is_chosen_while_it_is_unavailable(toy: Toy) -> None:
    operation = accept("acme")
    gate.close(ClusterUnavailable("connection refused"))

    run_operation(operation.pk)

    assert toy.executed == []


@COMMITTING
def test_concurrent_workers_with_the_same_hint_claim_different_operations(toy: Toy) -> None:
    operations = [accept("acme") for _ in range(8)]

    at_once([lambda: run_operation(operations[0].pk)] * 8)

    assert sorted(one.pk for one in toy.executed) == [one.pk for one in operations]


class Worker:
    """Receives the hints of the queue `operations` from the real broker, in their order."""

    def __call__(self) -> int:
        """Execute hints until the queue is empty; return their number."""
        with current_app.connection_for_read() as connection:
            queue = connection.SimpleQueue(Queue.OPERATIONS.value)
            for number in itertools.count():
                try:
                    message = queue.get(timeout=1)
                except Empty:
                    return number
                message.ack()
                run_operation(*message.payload[0])
        raise AssertionError


@COMMITTING
def test_a_burst_of_one_tenant_does_not_delay_another(toy: Toy, broker: Broker) -> None:
    """While workers execute a burst of acme, one of them executes beta's request next."""
    burst = [accept("acme") for _ in range(BURST)]
    toy.may_end.clear()
    accepted: list[Operation] = []

    def send() -> None:
        for _ in range(WORKERS):
            assert toy.in_progress.acquire(timeout=60)
        accepted.append(accept("beta"))
        toy.may_end.set()

    jobs: list[Callable[[], int | None]] = [*([Worker()] * WORKERS), send]
    hints = at_once(jobs)

    assert hints[-1] is None
    assert sum(one for one in hints[:-1] if isinstance(one, int)) == BURST + 1
    assert toy.tenants[:WORKERS] == ["acme"] * WORKERS
    # The worker that claims beta's operation is not always the first that executes its next one.
    assert "beta" in toy.tenants[WORKERS : 2 * WORKERS]
    assert {one.pk for one in toy.executed} == {one.pk for one in [*burst, *accepted]}
    ended = Operation.objects.filter(phase=OperationPhase.SUCCEEDED)
    assert ended.count() == len(toy.executed) == BURST + 1, "each one was executed once"


@COMMITTING
def test_the_bursts_of_two_tenants_alternate(toy: Toy, broker: Broker) -> None:
    for owner in ("acme", "beta"):
        for _ in range(10):
            accept(owner)

    Worker()()

    assert toy.tenants == ["acme", "beta"] * 10


@COMMITTING
def test_one_hint_is_enough_for_each_operation_after_lost_messages(
    toy: Toy, broker: Broker
) -> None:
    """Each hint executes one operation, also if its own operation was executed before."""
    operations = [accept(owner) for owner in ("acme", "acme", "beta", "beta")]
    broker.lose_everything()

    for _ in operations:
        run_operation(operations[0].pk)

    assert toy.tenants == ["acme", "beta", "acme", "beta"]
