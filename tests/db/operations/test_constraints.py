"""Constraints of the database, and transitions of phases."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from gpuplatform.lifecycle.transition import transition
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPERATION_TRANSITIONS, OperationPhase
from gpuplatform.reconciliation.models import ClusterState
from gpuplatform.tenancy.models import Tenant
from inventory.models import StockPool
from tests.factories.inventory import accept_create, pool_row
from tests.fakes.cluster import FakeCluster

pytestmark = pytest.mark.django_db

ENDED: dict[str, Any] = {"due_at": None, "ended_at": Now()}


@pytest.mark.parametrize(
    "changes",
    [
        {"phase": "Sleeping"},
        {"phase": "Failed", **ENDED},
        {"phase": "Succeeded"},
        {"phase": "Succeeded", "due_at": None},
        {"due_at": None},
        {"ended_at": Now()},
    ],
    ids=" ".join,
)
def test_an_invalid_operation_is_rejected_by_the_database(
    cluster: FakeCluster, changes: dict[str, Any]
) -> None:
    accept_create()

    with pytest.raises(IntegrityError), transaction.atomic():
        Operation.objects.update(**changes)


def test_an_operation_id_is_unique_within_a_tenant(cluster: FakeCluster) -> None:
    first = accept_create(operationID="a").operation
    other = accept_create(operationID="b").operation

    with pytest.raises(IntegrityError), transaction.atomic():
        Operation.objects.filter(pk=other.pk).update(operation_id="a")
    tenant = Tenant.objects.create(name="other", namespace="tenant-other")
    Operation.objects.filter(pk=other.pk).update(operation_id="a", tenant=tenant)

    assert Operation.objects.filter(operation_id=first.operation_id).count() == 2


@pytest.mark.parametrize(
    "changes", [{"phase": "Sleeping"}, {"phase": "Failed", "reason": ""}], ids=str
)
def test_an_invalid_pool_is_rejected_by_the_database(changes: dict[str, Any]) -> None:
    pool_row()

    with pytest.raises(IntegrityError), transaction.atomic():
        StockPool.objects.update(**changes)


def test_a_pool_name_is_unique_among_live_rows() -> None:
    pool_row(name="a", deleted_at=Now())
    pool_row(name="a")

    with pytest.raises(IntegrityError), transaction.atomic():
        pool_row(name="a")


def test_a_uid_is_unique_unless_it_is_empty() -> None:
    pool_row(uid="u", deleted_at=Now())
    pool_row(uid="")
    pool_row(uid="")

    with pytest.raises(IntegrityError), transaction.atomic():
        pool_row(uid="u")


def test_the_cluster_state_is_a_single_row() -> None:
    ClusterState.objects.get_or_create(id=1)

    with pytest.raises(IntegrityError), transaction.atomic():
        ClusterState.objects.create(id=2)


@pytest.mark.parametrize("before", OperationPhase)
@pytest.mark.parametrize("to", OperationPhase)
def test_a_phase_changes_along_its_table_only(
    cluster: FakeCluster, before: OperationPhase, to: OperationPhase
) -> None:
    accept_create()
    ended = {} if before in {"Pending", "Running"} else ENDED
    Operation.objects.update(phase=before, error_code="x", **ended)
    wanted = {"due_at": Now(), "ended_at": None} if to in {"Pending", "Running"} else ENDED

    moved = transition(Operation.objects.all(), OPERATION_TRANSITIONS, to, **wanted)

    assert moved == (to in OPERATION_TRANSITIONS[before])
    assert Operation.objects.get().phase == (to if moved else before)
