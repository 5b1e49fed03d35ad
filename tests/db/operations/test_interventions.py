"""Cancel and retry: only if it is safe, only once, and under concurrency."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from django.db.models.functions import Now

from gpuplatform.errors import NameConflict, OperationConflict, PhaseConflict
from gpuplatform.kube.errors import ClusterRejected, ClusterUnavailable
from gpuplatform.kube.kinds import STOCK_POOL
from gpuplatform.operations import driver
from gpuplatform.operations.interventions import (
    cancel_obstacle,
    operation_cancel,
    operation_retry,
)
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted, operations_prune
from gpuplatform.queueing import Queue
from gpuplatform.reconciliation.models import ClusterState
from inventory.models import StockPool
from tests.factories.inventory import accept_create, accept_delete, accept_update, create_body
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import Broker
from tests.fakes.threads import at_once

ONE = pytest.mark.django_db
COMMITTING = pytest.mark.django_db(transaction=True, serialized_rollback=True)
NO_NAMESPACE = ClusterRejected("namespaces 'x' not found", reason="NotFound", status=404)
INVALID = ClusterRejected("spec: Invalid", reason="Invalid", status=422)
AWAY = ClusterUnavailable("connection refused")


def state(operation: Operation) -> Operation:
    return Operation.objects.get(pk=operation.pk)


def run(operation: Operation) -> Operation:
    Operation.objects.filter(pk=operation.pk, ended_at__isnull=True).update(
        due_at=Now(), lease_expires_at=Now() - timedelta(seconds=1)
    )
    ClusterState.objects.update(failures=0, closed_until=None)
    driver.run(operation.pk)
    return state(operation)


def failed(cluster: FakeCluster, error: ClusterRejected = NO_NAMESPACE) -> Operation:
    """Return a failed create operation."""
    operation = accept_create(**create_body(name="a", operationID="first")).operation
    cluster.fail("create", STOCK_POOL, error)
    ended = run(operation)
    assert ended.phase == "Failed"
    return ended


def cancel(operation: Operation, operation_id: str = "cancel-1") -> Accepted:
    return operation_cancel(operation=state(operation), operation_id=operation_id)


def retry(operation: Operation, operation_id: str = "again-1") -> Accepted:
    return operation_retry(operation=state(operation), operation_id=operation_id)


@ONE
def test_a_create_that_waits_is_cancelled_and_its_name_is_free(cluster: FakeCluster) -> None:
    operation = accept_create(name="a").operation

    accepted = cancel(operation)

    ended = state(operation)
    assert (ended.phase, ended.error_code, ended.due_at) == ("Cancelled", "", None)
    assert ended.cancelled_by == accepted.operation
    assert StockPool.objects.get().deleted_at is not None
    assert not accepted.is_replay
    assert run(accepted.operation).phase == "Succeeded"
    assert accept_create(name="a").operation.phase == "Pending"
    assert cluster.names(STOCK_POOL) == []


@ONE
def test_a_cancelled_operation_is_never_claimed(cluster: FakeCluster) -> None:
    operation = accept_create(name="a").operation
    cancel(operation)

    assert driver.run(operation.pk) is None

    assert cluster.names(STOCK_POOL) == []


@ONE
def test_a_create_whose_response_was_lost_leaves_a_leftover_when_cancelled(
    cluster: FakeCluster,
) -> None:
    operation = accept_create(name="a").operation
    cluster.fail("create", STOCK_POOL, AWAY, acts_first=True)
    run(operation)

    cancel(operation)
    following = accept_create(name="a").operation

    assert cluster.names(STOCK_POOL) == ["a"]
    assert run(following).reason == "LeftoverConflict"


@COMMITTING
def test_the_next_operation_is_enqueued_after_a_cancellation(
    cluster: FakeCluster, broker: Broker
) -> None:
    operation = accept_create(name="a").operation
    behind = accept_delete("a").operation
    broker.lose_everything()

    accepted = cancel(operation)

    assert broker.hints(Queue.OPERATIONS) == 2  # the waiting operation, and the cancellation
    assert run(behind).phase == run(accepted.operation).phase == "Succeeded"


@ONE
def test_a_cancellation_is_idempotent(cluster: FakeCluster) -> None:
    operation = accept_create(name="a").operation
    other = accept_create(name="b").operation
    first = cancel(operation)

    again = cancel(operation)

    assert (again.is_replay, again.operation) == (True, first.operation)
    with pytest.raises(OperationConflict):
        cancel(other)
    with pytest.raises(OperationConflict):
        cancel(other, other.operation_id)
    assert state(other).phase == "Pending"


def _ended(cluster: FakeCluster) -> Operation:
    operation = accept_create(name="a").operation
    return run(operation)


def _at_work(cluster: FakeCluster) -> Operation:
    operation = accept_create(name="a").operation
    Operation.objects.filter(pk=operation.pk).update(phase="Running")
    return operation


def _deletion(cluster: FakeCluster) -> Operation:
    accept_create(name="a")
    return accept_delete("a").operation


def _begun_change(cluster: FakeCluster) -> Operation:
    run(accept_create(name="a").operation)
    operation = accept_update("a", replicas=9).operation
    cluster.fail("patch", STOCK_POOL, AWAY)
    return run(operation)


def _cancellation(cluster: FakeCluster) -> Operation:
    return cancel(accept_create(name="a").operation, "other").operation


def _of_another_release(cluster: FakeCluster) -> Operation:
    operation = accept_create(name="a").operation
    Operation.objects.filter(pk=operation.pk).update(kind="warp.engage")
    return operation


@ONE
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(_ended, id="ended"),
        pytest.param(_at_work, id="running"),
        pytest.param(_deletion, id="deletion"),
        pytest.param(_begun_change, id="started change"),
        pytest.param(_cancellation, id="cancellation"),
        pytest.param(_of_another_release, id="unknown kind"),
    ],
)
def test_an_operation_that_cannot_be_cancelled_is_unchanged(
    cluster: FakeCluster, make: Callable[[FakeCluster], Operation]
) -> None:
    operation = make(cluster)
    before = state(operation)

    with pytest.raises(PhaseConflict):
        cancel(operation)

    assert state(operation).phase == before.phase
    assert not Operation.objects.filter(operation_id="cancel-1").exists()


@ONE
def test_an_unclaimed_change_is_cancelled(cluster: FakeCluster) -> None:
    run(accept_create(name="a", replicas=1).operation)
    operation = accept_update("a", replicas=9).operation

    cancel(operation)

    assert state(operation).phase == "Cancelled"
    assert cluster.get_pool("a")["spec"]["replicas"] == 1


@COMMITTING
def test_of_a_concurrent_cancellation_and_claim_one_wins(
    cluster: FakeCluster, broker: Broker
) -> None:
    operation = accept_create(name="a").operation

    jobs: list[Callable[[], object]] = [
        partial(cancel, operation),
        partial(driver.run, operation.pk),
    ]
    answer, _ = at_once(jobs)

    row, ended = StockPool.objects.get(), state(operation)
    if isinstance(answer, Accepted):
        assert (ended.phase, cluster.names(STOCK_POOL)) == ("Cancelled", [])
        assert row.deleted_at is not None
    else:
        assert isinstance(answer, PhaseConflict), answer
        assert (ended.phase, cluster.names(STOCK_POOL)) == ("Succeeded", ["a"])
        assert row.uid == ended.object_uid


@COMMITTING
def test_of_concurrent_cancellations_one_is_accepted(cluster: FakeCluster, broker: Broker) -> None:
    operation = accept_create(name="a").operation

    answers = at_once([partial(cancel, operation, f"c{number}") for number in range(8)])

    assert [type(one).__name__ for one in answers if isinstance(one, Accepted)] == ["Accepted"]
    assert sum(isinstance(one, PhaseConflict) for one in answers) == 7, answers
    assert Operation.objects.count() == 2


@ONE
def test_a_retry_is_the_same_request_as_a_new_operation(cluster: FakeCluster) -> None:
    first = failed(cluster)

    accepted = retry(first)

    again = accepted.operation
    assert (again.kind, again.payload, again.request_hash) == (
        first.kind,
        first.payload,
        first.request_hash,
    )
    assert state(again).retry_of == first
    assert run(again).phase == "Succeeded"
    assert state(first).phase == "Failed"
    assert accept_create(**create_body(name="a", operationID="first")).is_replay


@ONE
def test_a_retry_is_idempotent_and_a_second_one_is_rejected(cluster: FakeCluster) -> None:
    first = failed(cluster)
    accepted = retry(first)

    again = retry(first)

    assert (again.is_replay, again.operation) == (True, accepted.operation)
    with pytest.raises(PhaseConflict):
        retry(first, "again-2")
    assert Operation.objects.count() == 2


@ONE
def test_a_failed_retry_can_be_retried(cluster: FakeCluster) -> None:
    second = retry(failed(cluster)).operation
    cluster.fail("create", STOCK_POOL, NO_NAMESPACE)
    assert run(second).phase == "Failed"

    third = retry(second, "again-2").operation

    assert run(third).phase == "Succeeded"


@ONE
def test_a_retry_whose_name_is_in_use_is_a_name_conflict(cluster: FakeCluster) -> None:
    first = failed(cluster)
    accept_create(name="a")

    with pytest.raises(NameConflict):
        retry(first)

    assert not Operation.objects.filter(operation_id="again-1").exists()
    assert not Operation.objects.filter(retry_of=first).exists()


@ONE
def test_a_permanent_failure_is_not_retried(cluster: FakeCluster) -> None:
    first = failed(cluster, INVALID)

    with pytest.raises(PhaseConflict, match="would fail again"):
        retry(first)


@ONE
def test_an_operation_that_has_not_failed_is_not_retried(cluster: FakeCluster) -> None:
    with pytest.raises(PhaseConflict, match="has not failed; its phase is Pending"):
        retry(accept_create(name="a").operation)


@ONE
def test_a_change_is_not_retried_on_another_pool_of_that_name(cluster: FakeCluster) -> None:
    run(accept_create(name="a").operation)
    operation = accept_update("a", replicas=9).operation
    cluster.fail("patch", STOCK_POOL, NO_NAMESPACE)
    assert run(operation).phase == "Failed"
    StockPool.objects.update(deleted_at=Now())
    accept_create(name="a")

    with pytest.raises(PhaseConflict):
        retry(operation)

    assert not Operation.objects.filter(operation_id="again-1").exists()


@ONE
def test_the_id_of_another_request_is_a_conflict(cluster: FakeCluster) -> None:
    first = failed(cluster)
    accept_create(name="b", operationID="again-1")

    with pytest.raises(OperationConflict):
        retry(first)

    assert cancel_obstacle(state(first)), "an ended operation cannot be cancelled"


@COMMITTING
def test_of_concurrent_retries_one_is_accepted(cluster: FakeCluster, broker: Broker) -> None:
    first = failed(cluster)

    answers = at_once([partial(retry, first, f"r{number}") for number in range(8)])

    assert sum(isinstance(one, Accepted) for one in answers) == 1, answers
    assert sum(isinstance(one, PhaseConflict) for one in answers) == 7, answers
    assert Operation.objects.filter(retry_of=first).count() == 1


@ONE
def test_interventions_are_deleted_after_their_retention(cluster: FakeCluster) -> None:
    operation = accept_create(name="a").operation
    made = cancel(operation).operation
    run(made)
    StockPool.objects.all().delete()
    Operation.objects.update(ended_at=Now() - timedelta(days=31))

    assert operations_prune() == 2
