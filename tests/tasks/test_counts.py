"""Metrics of workers: claims, ends and successes of operations, and reconciliations."""

import pytest

from gpuplatform.errors import InsufficientCapacity
from gpuplatform.kube.errors import ClusterConflict, ClusterRejected, ClusterUnavailable
from gpuplatform.kube.kinds import STOCK_POOL
from gpuplatform.metrics.declared import (
    CLAIM_SECONDS,
    CLAIMS_REJECTED,
    OPERATIONS_ENDED,
    RECONCILE_SECONDS,
    SUCCESS_SECONDS,
)
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.operations.tasks import run_operation
from gpuplatform.operations.telemetry import operation_ended
from inventory.models import StockPool
from inventory.tasks import reconcile_pool
from tests.factories.inventory import accept_create
from tests.factories.unit_resources import accept_unit
from tests.fakes.cluster import FakeCluster
from tests.fakes.counted import Counted, counted
from tests.fakes.installed import Broker

__all__ = ["counted"]
pytestmark = pytest.mark.django_db
CREATE = "stockpool.create"


def test_an_operation_is_claimed_once_and_ends_once(
    cluster: FakeCluster, broker: Broker, counted: Counted
) -> None:
    number = accept_create(name="a").operation.id

    run_operation(number)
    run_operation(number)

    assert counted.values(CLAIM_SECONDS) == {(CREATE,): 1}
    assert counted.values(SUCCESS_SECONDS) == {(CREATE,): 1}
    assert counted.values(OPERATIONS_ENDED) == {(CREATE, "Succeeded"): 1}


def test_a_second_attempt_is_not_a_second_claim(
    cluster: FakeCluster, broker: Broker, counted: Counted
) -> None:
    number = accept_create(name="a").operation.id
    cluster.fail("create", STOCK_POOL, ClusterConflict("busy"))

    run_operation(number)
    Operation.objects.filter(id=number).update(due_at="2026-01-01T00:00:00Z")
    cluster.heal()
    run_operation(number)

    assert counted.values(CLAIM_SECONDS) == {(CREATE,): 1}
    assert counted.values(OPERATIONS_ENDED) == {(CREATE, "Succeeded"): 1}


def test_a_failed_operation_does_not_count_as_a_success(
    cluster: FakeCluster, broker: Broker, counted: Counted
) -> None:
    number = accept_create(name="a").operation.id
    cluster.fail("create", STOCK_POOL, ClusterRejected("no", status=422))

    run_operation(number)

    assert counted.values(OPERATIONS_ENDED) == {(CREATE, "Failed"): 1}
    assert counted.values(SUCCESS_SECONDS) == {}


def test_a_create_without_stock_is_a_refused_claim(cluster: FakeCluster, counted: Counted) -> None:
    with pytest.raises(InsufficientCapacity):
        accept_unit()

    assert counted.values(CLAIMS_REJECTED) == {("unit.create",): 1}


def test_an_operation_that_fails_without_stock_is_a_refused_claim(
    cluster: FakeCluster, counted: Counted
) -> None:
    operation = accept_create(name="a").operation

    operation_ended(operation, OperationPhase.FAILED, InsufficientCapacity.code)

    assert counted.values(CLAIMS_REJECTED) == {(CREATE,): 1}


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        pytest.param(None, "done", id="none"),
        pytest.param(ClusterConflict("busy"), "conflict", id="conflict"),
        pytest.param(ClusterUnavailable("late", status=503), "failed", id="refused"),
        pytest.param(ZeroDivisionError(), "error", id="ours"),
    ],
)
def test_a_reconciliation_is_observed_with_its_outcome(
    cluster: FakeCluster,
    broker: Broker,
    counted: Counted,
    error: Exception | None,
    outcome: str,
) -> None:
    run_operation(accept_create(name="a").operation.id)
    StockPool.objects.update(due_at="2026-01-01T00:00:00Z")
    if error is not None:
        cluster.fail("get", STOCK_POOL, error)

    reconcile_pool(StockPool.objects.get().id)

    assert counted.values(RECONCILE_SECONDS) == {("StockPool", outcome): 1}
