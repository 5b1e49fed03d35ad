"""Counts use only rows, are consistent at any time, and need one query."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from gpuplatform.errors import NotFound
from gpuplatform.observability.health_document import health
from gpuplatform.samples.capacity import SpecCapacity
from tests.factories.unit_resources import accept_seed, accept_unit
from tests.factories.unit_rows import spec_row, stock_row, unit_row
from tests.fakes.cluster import FakeCluster
from units.models import CapacitySample, GpuUnit
from units.phases import UnitPhase
from units.selectors import (
    StockState,
    active_count,
    capacity_by_spec,
    claimable,
    stock_live,
    stock_ready_count,
    stock_state,
    unit_get,
    units_due,
    units_live,
)
from units.services.maintenance import capacity_sample

pytestmark = pytest.mark.django_db

STATES = [state.value for state in StockState]


def counted(spec: SpecCapacity) -> int:
    return sum(getattr(spec, state) for state in STATES)


def test_each_unit_of_stock_is_counted_once_and_in_one_query(
    cluster: FakeCluster, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    stock_row()
    accept_unit()  # It claims this row.
    stock_row()
    stock_row()
    stock_row(UnitPhase.PROGRESSING)
    stock_row(UnitPhase.PENDING, uid="")
    stock_row(UnitPhase.FAILED)
    stock_row(UnitPhase.TERMINATING, deletion_requested_at=Now())
    stock_row(consumed_by="u", consumed_at=Now())
    stock_row(consumed_by="v", consumed_at=Now(), deleted_at=Now())
    stock_row(deleted_at=Now())
    unit_row()
    unit_row(deleted_at=Now())
    stock_row(spec_name="other")

    with django_assert_num_queries(1):
        found = {spec.name: spec for spec in capacity_by_spec()}

    assert found["g1.1"].model_copy(update={"gpus_by_resource": {}}) == SpecCapacity(
        name="g1.1",
        ready=2,
        claimed=1,
        starting=2,
        failed=1,
        deleting=1,
        active=2,
        seeded=10,
        consumed=2,
        deleted=1,
    )
    assert found["g1.1"].total == counted(found["g1.1"]) == 7
    assert (found["other"].ready, found["other"].total) == (1, 1)


ROW = st.fixed_dictionaries(
    {
        "phase": st.sampled_from(UnitPhase.values),
        "is_asked_to_go": st.booleans(),
        "is_gone": st.booleans(),
        "fate": st.sampled_from(["free", "claimed", "consumed"]),
    }
)


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(ROW, max_size=8))
def test_the_counts_add_up_for_any_rows(cluster: FakeCluster, rows: list[dict[str, Any]]) -> None:
    """E3: free + claimed + starting + failed + deleting is the total, for any rows."""
    with transaction.atomic():
        operation = accept_seed(specName="maker").operation
        for row in rows:
            changes: dict[str, Any] = {}
            if row["is_asked_to_go"]:
                changes["deletion_requested_at"] = Now()
            if row["is_gone"]:
                changes["deleted_at"] = Now()
            if row["fate"] == "claimed":
                changes["claimed_by"] = operation
            if row["fate"] == "consumed":
                changes |= {"consumed_by": "u", "consumed_at": Now()}
            stock_row(row["phase"], **changes)

        specs = [spec for spec in capacity_by_spec() if spec.name == "g1.1"]
        states = Counter(stock_state(row).value for row in stock_live().filter(spec_name="g1.1"))

        for spec in specs:
            assert counted(spec) == spec.total
            assert {state: getattr(spec, state) for state in STATES} == {
                state: states[state] for state in STATES
            }
        transaction.set_rollback(True)


def test_claimable_stock_is_ready_unclaimed_and_oldest_first() -> None:
    first, second = stock_row(), stock_row()
    stock_row(UnitPhase.PROGRESSING)
    stock_row(consumed_by="u", consumed_at=Now())
    stock_row(deletion_requested_at=Now())
    stock_row(spec_name="other")

    assert list(claimable("g1.1")) == [first, second]


def test_stock_is_invisible_among_the_units() -> None:
    stock, unit = stock_row(), unit_row(name="a")

    assert unit_get(unit.namespace, "a") == unit
    with pytest.raises(NotFound):
        unit_get(stock.namespace, stock.name)
    assert set(units_live()) == {stock, unit}


def test_health_counts_stock_that_can_be_claimed_and_units_in_use(
    cluster: FakeCluster,
) -> None:
    stock_row()
    stock_row(UnitPhase.FAILED)
    stock_row(consumed_by="u", consumed_at=Now())
    unit_row()
    unit_row(UnitPhase.PENDING)
    unit_row(deleted_at=Now())

    assert (stock_ready_count(), active_count()) == (1, 2)


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_the_health_document_has_both_counts(cluster: FakeCluster) -> None:
    stock_row()
    unit_row()

    found = health()

    assert (found["stockUnitCount"], found["activeUnitCount"]) == (1, 1)


def test_due_units_have_a_uid_and_no_lease() -> None:
    late = stock_row(due_at="2026-01-02T00:00:00Z")
    later = unit_row(due_at="2026-01-03T00:00:00Z")
    stock_row(due_at=Now(), uid="")
    stock_row(due_at=Now(), deleted_at=Now())
    stock_row(due_at=Now(), lease_expires_at="2999-01-01T00:00:00Z")
    stock_row()

    assert units_due(10) == [late.pk, later.pk]
    assert units_due(1) == [late.pk]


def test_a_sample_has_the_idle_gpu_seconds_of_ready_stock() -> None:
    spec_row()
    stock_row(gpu=4)
    stock_row(gpu=2)
    stock_row(UnitPhase.FAILED, gpu=8)
    capacity_sample()
    CapacitySample.objects.update(at=F("at") - timedelta(seconds=100))

    capacity_sample()

    latest, first = CapacitySample.objects.all()
    assert first.idle_gpu_seconds == 0
    assert 600 <= latest.idle_gpu_seconds <= 720


def test_a_gap_between_samples_does_not_count_as_idle_time() -> None:
    stock_row(gpu=4)
    capacity_sample()
    CapacitySample.objects.update(at=F("at") - timedelta(days=3))

    capacity_sample()

    assert set(CapacitySample.objects.values_list("idle_gpu_seconds", flat=True)) == {0}


def test_consumed_stock_is_not_in_the_list() -> None:
    stock_row(consumed_by="u", consumed_at=Now())
    kept = stock_row()

    assert list(stock_live()) == [kept]
    assert stock_state(GpuUnit.objects.exclude(consumed_by="").get()) == StockState.DELETING
