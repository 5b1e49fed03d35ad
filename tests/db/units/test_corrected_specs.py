"""Stock that failed with an earlier version of its GPU spec does not delay the corrected one."""

from typing import Any

import pytest
from django.db.models import F, JSONField, Value
from django.db.models.expressions import CombinedExpression

from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.workloads.causes import StartupCause
from inventory.models import GpuSpec
from inventory.requests.catalogue import GpuSpecPatch
from inventory.services.catalogue import gpu_spec_update
from tests.factories.unit_rows import spec_row
from tests.fakes.unit_world import UnitWorld
from units.models import GpuUnit
from units.phases import QueueCause, UnitPhase, UnitReason
from units.queue_entries import MAX_FAILED, causes_of
from units.services.obstacles import is_top_up_stopped
from units.services.stock import top_up

pytestmark = pytest.mark.django_db

DEFAULTS = {"resourceName": "nvidia.com/gpu", "priority": 0, "preemptible": False}
"""Defaults that the API server adds to the spec of a stock unit."""
CORRECTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "another product": ({"product": "typo"}, {"product": "A100"}),
    "any product": ({"product": "typo"}, {"product": ""}),
    "cpu": ({"cpu": "800"}, {"cpu": "8"}),
    "memory": ({"memory": "64Ti"}, {"memory": "64Gi"}),
    "gpu": ({"gpu": 16}, {"gpu": 8}),
    "resourceName": ({"resource_name": "typo.com/gpu"}, {"resourceName": "amd.com/gpu"}),
    "resources": ({"resources": {"rdma/typo": "1"}}, {"resources": {"rdma/hca": "1"}}),
    "placement": ({"placement": {"nodeSelector": {"zone": "typo"}}}, {"placement": {}}),
}


def seed_stuck(world: UnitWorld, spec: GpuSpec, phase: UnitPhase, cause: StartupCause) -> None:
    """Top up a GPU spec with stock that does not become ready."""
    accepted = top_up(spec)
    assert accepted is not None
    world.finish(accepted.operation)
    spec_with_defaults = CombinedExpression(Value(DEFAULTS, JSONField()), "||", F("spec"))
    GpuUnit.objects.update(
        phase=phase, cause=cause, reason=UnitReason.POD_STARTUP_FAILED, spec=spec_with_defaults
    )


def correct(**fields: Any) -> GpuSpec:
    body = GpuSpecPatch.parse({"operationID": "correction", **fields})
    gpu_spec_update(tenant=tenant_by_name(), name="g1.1", body=body)
    return GpuSpec.objects.get()


@pytest.mark.parametrize("name", CORRECTIONS)
def test_a_corrected_spec_is_topped_up_although_its_stock_failed(
    world: UnitWorld, name: str
) -> None:
    columns, fields = CORRECTIONS[name]
    spec = spec_row(warm_target=MAX_FAILED, **columns)
    seed_stuck(world, spec, UnitPhase.FAILED, StartupCause.CONTAINER_EXITED)
    assert is_top_up_stopped(spec)
    assert top_up(spec) is None

    spec = correct(**fields)

    assert not is_top_up_stopped(spec)
    accepted = top_up(spec)
    assert accepted is not None
    assert accepted.operation.progress_total == MAX_FAILED


@pytest.mark.parametrize("phase", [UnitPhase.PROGRESSING, UnitPhase.FAILED])
def test_a_corrected_spec_is_topped_up_although_its_stock_fits_no_node(
    world: UnitWorld, phase: UnitPhase
) -> None:
    spec = spec_row(warm_target=2, product="typo")
    seed_stuck(world, spec, phase, StartupCause.UNSCHEDULABLE)

    accepted = top_up(correct(product="A100"))

    assert accepted is not None
    assert accepted.operation.progress_total == 2


@pytest.mark.parametrize("phase", [UnitPhase.PROGRESSING, UnitPhase.FAILED])
def test_requests_get_stock_of_a_corrected_spec(world: UnitWorld, phase: UnitPhase) -> None:
    spec = spec_row(product="typo")
    for name in ("a", "b", "c"):
        world.create(name, wait={"maxSeconds": 60})
    seed_stuck(world, spec, phase, StartupCause.UNSCHEDULABLE)
    assert top_up(spec) is None
    assert causes_of(["g1.1"]) == {"g1.1": QueueCause.STOCK_UNSCHEDULABLE}

    spec = correct(product="A100")

    assert causes_of(["g1.1"]) == {"g1.1": QueueCause.STOCK_MISSING}
    accepted = top_up(spec)
    assert accepted is not None
    assert accepted.operation.progress_total == 3


def test_failures_count_after_a_change_that_does_not_concern_the_stock(world: UnitWorld) -> None:
    spec = spec_row(warm_target=MAX_FAILED)
    seed_stuck(world, spec, UnitPhase.FAILED, StartupCause.CONTAINER_EXITED)

    spec = correct(description="A larger target.", warmTarget=MAX_FAILED + 1)

    assert is_top_up_stopped(spec)
    assert top_up(spec) is None
