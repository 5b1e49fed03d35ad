"""Rows are deleted after 30 days, and operations are retained for their unit."""

from datetime import timedelta

import pytest

from gpuplatform import clock
from gpuplatform.kube.errors import ClusterRejected
from gpuplatform.kube.kinds import GPU_UNIT
from gpuplatform.operations.models import Operation
from gpuplatform.operations.tasks import prune_operations
from tests.fakes.unit_world import UnitWorld, unit_row
from units.models import GpuUnit
from units.services.maintenance import units_prune

pytestmark = pytest.mark.django_db

LONG_AGO = clock.now() - timedelta(days=31)
REFUSED = ClusterRejected("spec: Invalid", reason="Invalid", status=422)


def start_in_vain(world: UnitWorld) -> Operation:
    """Start a stopped unit: the change is applied, but the response is a rejection."""
    world.seed(2)
    world.create("a")
    world.work()
    world.stop("a")
    world.work()
    operation = world.start("a")
    world.cluster.fail("patch", GPU_UNIT, REFUSED, acts_first=True)
    assert world.run(operation).phase == "Failed"
    world.work()
    return operation


def forget() -> None:
    Operation.objects.update(ended_at=LONG_AGO)
    GpuUnit.objects.filter(deleted_at__isnull=False).update(deleted_at=LONG_AGO)
    units_prune()
    prune_operations()


def test_a_unit_whose_start_failed_is_still_stopped_after_a_month(world: UnitWorld) -> None:
    operation = start_in_vain(world)

    forget()
    world.work()

    assert Operation.objects.filter(pk=operation.pk).exists()
    assert (unit_row("a").phase, world.pods("a")) == ("Stopped", 0)


def test_a_failed_start_is_pruned_after_its_unit_is_deleted(world: UnitWorld) -> None:
    operation = start_in_vain(world)
    world.delete("a")
    world.work()

    forget()

    assert not Operation.objects.filter(pk=operation.pk).exists()
