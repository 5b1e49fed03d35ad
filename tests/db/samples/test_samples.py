"""Samples of the platform: counted once by the database's clock, and deleted after retention."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now

from gpuplatform.clock import now
from gpuplatform.kube.kinds import Manifest
from gpuplatform.observability.sampler import MAX_SPAN, SETTLE_DELAY, take_sample
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.samples.models import PlatformSample
from gpuplatform.samples.selectors import latest_capacity
from gpuplatform.samples.services import samples_prune
from inventory.phases import PoolPhase
from inventory.services.nodes import nodes_update
from tests.factories.admin_rows import Rows
from tests.factories.nodes import gpu_pod, node_manifest, records
from tests.factories.unit_rows import spec_row, stock_row, unit_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import broker, cluster
from units.models import CapacitySample, UnitHistory
from units.pace import claim_pace, idle_gpu_seconds
from units.phases import UnitPhase
from units.services.maintenance import capacity_sample

__all__ = ["broker", "cluster"]

pytestmark = pytest.mark.django_db


def _store(nodes: list[Manifest], *pods: Manifest) -> None:
    nodes_update(records(nodes, pods), version=1, is_complete=True)


def _sampled_before(**ago: float) -> None:
    take_sample()
    PlatformSample.objects.update(at=Now() - timedelta(**ago))


def test_operations_are_counted_once_between_two_samples(cluster: FakeCluster) -> None:
    rows = Rows()
    _sampled_before(minutes=6)
    rows.operation()
    rows.operation(OperationPhase.FAILED)
    rows.operation(OperationPhase.RUNNING)
    rows.operation(created_at=now() - timedelta(hours=1), ended_at=now() - timedelta(hours=1))
    take_sample()

    sample = PlatformSample.objects.order_by("at").last()

    assert sample is not None
    assert (sample.accepted, sample.failed) == (3, 1)
    assert sample.seconds == pytest.approx(360 - SETTLE_DELAY.total_seconds(), abs=3)


def test_a_sample_covers_a_limited_time(cluster: FakeCluster) -> None:
    _sampled_before(hours=3)
    take_sample()

    sample = PlatformSample.objects.order_by("at").last()

    assert sample is not None
    assert sample.seconds == MAX_SPAN.total_seconds()


def test_a_sample_has_the_age_of_the_oldest_due_row(cluster: FakeCluster) -> None:
    Rows().pool(PoolPhase.PROGRESSING, due_at=Now() - timedelta(seconds=90))

    take_sample()

    assert PlatformSample.objects.get().oldest_due_seconds == pytest.approx(90, abs=3)


def test_the_stored_capacity_has_the_gpus_of_the_nodes(cluster: FakeCluster) -> None:
    spec_row(warm_target=3)
    stock, unit = stock_row(), unit_row()
    stock_row(UnitPhase.FAILED)
    pods = [gpu_pod("s", "a", unit=stock.uid), gpu_pod("u", "b", unit=unit.uid)]
    _store([node_manifest("a", 6, capacity=8), node_manifest("b")], *pods)

    take_sample()

    _, seen = latest_capacity()
    assert seen is not None
    (spec,), (product,) = seen.specs, seen.products or ()
    assert (spec.name, spec.warm_target, spec.ready, spec.failed) == ("g1.1", 3, 1, 1)
    assert spec.gpus["active"] == 1
    assert (product.nodes, product.total, product.allocatable, product.free) == (2, 16, 14, 12)


def test_only_a_spec_that_no_node_can_hold_has_a_misfit(cluster: FakeCluster) -> None:
    _store([node_manifest("a", 0, capacity=8)])
    spec_row()
    spec_row("huge", gpu=16)
    spec_row("elsewhere", product="H200")

    take_sample()

    _, seen = latest_capacity()
    assert seen is not None
    misfits = {spec.name: spec.misfit for spec in seen.specs}
    assert misfits["g1.1"] == ""
    assert {"16", "8"} <= set(re.findall(r"[0-9]+", misfits["huge"]))
    assert "nvidia.com/gpu.product=H200" in misfits["elsewhere"]


def test_unschedulable_specs_do_not_reduce_free_gpus(cluster: FakeCluster) -> None:
    spec_row("huge", gpu=64)
    huge = {"spec_name": "huge", "gpu": 64, "spec": {"specName": "huge", "gpu": 64}}
    stock_row(UnitPhase.PROGRESSING, **huge)
    stock_row(UnitPhase.FAILED, **huge)
    spec_row()
    _store([node_manifest()], gpu_pod(unit=stock_row(UnitPhase.PROGRESSING).uid))

    take_sample()

    _, seen = latest_capacity()
    assert seen is not None
    (product,) = seen.products or ()
    assert (product.free, product.gpus["starting"], product.gpus["failed"]) == (7, 1, 0)
    assert {spec.name: spec.gpus["starting"] for spec in seen.specs} == {"g1.1": 1, "huge": 0}
    assert {spec.name: spec.wanted for spec in seen.specs} == {"g1.1": 0, "huge": 128}


def test_without_observed_nodes_the_products_are_unknown(cluster: FakeCluster) -> None:
    spec_row()

    take_sample()

    _, seen = latest_capacity()
    assert seen is not None
    assert seen.products is None
    assert [spec.name for spec in seen.specs] == ["g1.1"]


def test_without_the_database_no_sample_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuplatform.observability.sampler.read_state", lambda: None)

    take_sample()

    assert not PlatformSample.objects.exists()


def test_claim_to_ready_ends_with_the_first_readiness_of_units_with_a_source() -> None:
    for seconds in (1.0, 2.0, 9.0):
        _ready_unit(seconds)
    _ready_unit(100.0, source_name="")
    _ready_unit(50.0, ago=timedelta(hours=5))

    hour, day = claim_pace()

    assert (hour.claims, hour.p50) == (3, 2.0)
    assert hour.p95 == pytest.approx(8.3)
    assert (day.claims, day.p50) == (4, 5.5)


def test_idle_gpu_seconds_are_summed_over_the_samples_of_capacity() -> None:
    stock_row()
    capacity_sample()
    CapacitySample.objects.update(at=Now() - timedelta(minutes=10))
    capacity_sample()

    assert idle_gpu_seconds()["g1.1"] == pytest.approx(600, abs=3)


def test_old_samples_are_deleted(cluster: FakeCluster) -> None:
    _sampled_before(days=3)
    take_sample()

    assert samples_prune() == 1
    assert PlatformSample.objects.count() == 1


def _ready_unit(
    seconds: float, *, source_name: str = "stock-1", ago: timedelta = timedelta(minutes=5)
) -> None:
    asked_at = now() - ago
    unit = unit_row(source_name=source_name, created_at=asked_at)
    for later in (0.0, 60.0):  # Ready again later does not count.
        UnitHistory.objects.create(
            unit=unit, phase=UnitPhase.READY, at=asked_at + timedelta(seconds=seconds + later)
        )


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        pytest.param(
            "units_capacitysample",
            {"spec_name": "a", "idle_gpu_seconds": 0}
            | dict.fromkeys(("ready", "starting", "failed", "claimed", "active"), 1),
            id="capacity sample",
        ),
        pytest.param(
            "samples_platformsample",
            {"at": "2026-01-31T12:00:00Z", "seconds": 30.0}
            | dict.fromkeys(("accepted", "failed", "hour_claims", "day_claims"), 1)
            | dict.fromkeys(("succeeded", "open_jobs"), 1),
            id="platform sample",
        ),
    ],
)
def test_the_previous_release_can_still_insert_its_columns(
    table: str, columns: dict[str, Any]
) -> None:
    places = ", ".join(["%s"] * len(columns))
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})",
            list(columns.values()),
        )

        assert cursor.rowcount == 1
