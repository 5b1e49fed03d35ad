"""Operations in steps: each step is recorded under the lease before the next one."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db.models import F
from django.db.models.functions import Now

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.errors import ClusterRejected, ClusterUnavailable
from gpuplatform.kube.kinds import CONFIG_MAP
from gpuplatform.operations import driver, registry
from gpuplatform.operations.models import Operation
from gpuplatform.operations.registry import (
    Checkpoint,
    Done,
    Failed,
    OperationKind,
    Outcome,
    Step,
    Waiting,
)
from gpuplatform.reconciliation import epoch
from tests.factories.inventory import accept_create
from tests.fakes.cluster import FakeCluster, Killed

pytestmark = pytest.mark.django_db

KIND = "test.count"
STEPS = 3


def counted(operation: Operation) -> None:
    Operation.objects.filter(pk=operation.pk).update(progress_done=F("progress_done") + 1)


def count_to_three(cluster: Cluster, operation: Operation) -> Step:
    cluster.get(CONFIG_MAP, "one", namespace="default")
    return Checkpoint(counted) if operation.progress_done < STEPS else Done()


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Operation]:
    """Register a kind of operation for this test, and accept one of it."""
    monkeypatch.setattr(registry, "_kinds", dict(registry._kinds))
    ends: list[object] = []

    def accept(execute: Callable[[Cluster, Operation], Step] = count_to_three) -> Operation:
        registry.register(OperationKind(KIND, execute, lambda _, outcome: ends.append(outcome)))
        number = accept_create().operation.pk
        Operation.objects.filter(pk=number).update(kind=KIND, progress_total=STEPS)
        return Operation.objects.get(pk=number)

    return accept


def state(operation: Operation) -> Operation:
    return Operation.objects.get(pk=operation.pk)


def free(operation: Operation) -> None:
    Operation.objects.filter(pk=operation.pk).update(
        lease_expires_at=Now() - timedelta(seconds=1), due_at=Now()
    )


def test_each_step_reads_the_record_of_the_previous_step(
    cluster: FakeCluster, kinds: Callable[..., Operation]
) -> None:
    operation = kinds()

    assert driver.run(operation.pk) is None

    assert (state(operation).phase, state(operation).progress_done) == ("Succeeded", STEPS)


def test_a_worker_killed_between_steps_loses_no_step(
    cluster: FakeCluster, kinds: Callable[..., Operation]
) -> None:
    operation = kinds()
    reads = 0

    def die(verb: str, kind: object) -> None:
        nonlocal reads
        reads += kind == CONFIG_MAP and verb == "get"
        if reads == 3:
            cluster.on_call = None
            raise Killed

    assert epoch.matches()
    cluster.on_call = die
    with pytest.raises(Killed):
        driver.run(operation.pk)
    assert state(operation).progress_done == 2
    free(operation)
    driver.run(operation.pk)

    assert (state(operation).phase, state(operation).progress_done) == ("Succeeded", STEPS)


def test_a_step_after_the_lease_was_lost_records_nothing_and_ends_the_run(
    cluster: FakeCluster, kinds: Callable[..., Operation]
) -> None:
    calls = []

    def lose(cluster: Cluster, operation: Operation) -> Step:
        calls.append(operation.pk)
        free(operation)
        Operation.objects.filter(pk=operation.pk).update(
            lease_token="00000000-0000-4000-8000-000000000000"
        )
        return Checkpoint(counted)

    operation = kinds(lose)

    assert driver.run(operation.pk) is None

    assert len(calls) == 1
    assert (state(operation).progress_done, state(operation).phase) == (0, "Running")


def test_progress_counts_as_an_outcome_of_a_start(
    cluster: FakeCluster, kinds: Callable[..., Operation]
) -> None:
    def die(cluster: Cluster, operation: Operation) -> Step:
        if operation.progress_done % 2:
            counted(operation)
            raise Killed
        return Checkpoint(counted)

    operation = kinds(die)

    for _ in range(driver.MAX_STARTS + 2):
        with pytest.raises(Killed):
            driver.run(operation.pk)
        free(operation)

    assert state(operation).phase == "Running"
    assert state(operation).progress_done == 2 * (driver.MAX_STARTS + 2)


def test_a_run_without_time_left_continues_immediately_in_the_next(
    cluster: FakeCluster, kinds: Callable[..., Operation], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "MIN_STEP_SECONDS", driver.RUN_SECONDS + 1)
    operation = kinds()

    assert [driver.run(operation.pk) for _ in range(STEPS + 1)] == [0, 0, 0, None]

    assert state(operation).phase == "Succeeded"


@pytest.mark.parametrize(
    ("outcome", "phase"),
    [
        (Waiting("NotYet", "Nothing is there yet.", 1), "Pending"),
        (Failed("insufficient_capacity", "Nothing is left."), "Failed"),
    ],
    ids=["waits", "refused"],
)
def test_a_record_can_return_the_outcome(
    cluster: FakeCluster, kinds: Callable[..., Operation], outcome: Outcome, phase: str
) -> None:
    operation = kinds(lambda cluster, operation: Checkpoint(lambda fresh: outcome))

    driver.run(operation.pk)

    assert state(operation).phase == phase


@pytest.mark.parametrize(
    ("error", "phase"),
    [(ClusterUnavailable("busy", status=429), "Pending"), (ClusterRejected("no"), "Failed")],
    ids=["may pass", "deterministic"],
)
def test_an_error_after_some_steps_makes_the_operation_wait(
    cluster: FakeCluster,
    kinds: Callable[..., Operation],
    error: ClusterUnavailable,
    phase: str,
) -> None:
    def fail_at_last(cluster: Cluster, operation: Operation) -> Step:
        if operation.progress_done == 2:
            raise error
        return Checkpoint(counted)

    operation = kinds(fail_at_last)

    driver.run(operation.pk)

    assert (state(operation).phase, state(operation).progress_done) == (phase, 2)


def test_a_wait_does_not_count_as_a_failure(
    cluster: FakeCluster, kinds: Callable[..., Operation]
) -> None:
    operation = kinds(lambda cluster, operation: Waiting("NotYet", "Wait.", 1))

    for _ in range(3):
        driver.run(operation.pk)
        free(operation)

    assert state(operation).failures == 0


def test_reason_since_changes_only_with_the_reason(
    cluster: FakeCluster, kinds: Callable[..., Operation]
) -> None:
    wait = {"reason": "One"}
    operation = kinds(lambda cluster, operation: Waiting(wait["reason"], "Wait.", 1))
    driver.run(operation.pk)
    first = state(operation).reason_since
    past = Now() - timedelta(hours=1)
    Operation.objects.update(reason_since=past)
    since = state(operation).reason_since

    free(operation)
    driver.run(operation.pk)
    assert state(operation).reason_since == since
    wait["reason"] = "Another"
    free(operation)
    driver.run(operation.pk)

    assert first is not None
    assert since is not None
    later = state(operation).reason_since
    assert later is not None
    assert later > since
