"""What the reconciliation of a hand-over reads from the cluster."""

import pytest
from django.db.models.functions import Now

from gpuplatform.kube.kinds import DEPLOYMENT, JOB, POD, ResourceKind
from gpuplatform.reconciliation import driver as reconciliation
from tests.fakes.unit_world import UnitWorld
from units.models import GpuUnit
from units.reconcile import UNITS

pytestmark = pytest.mark.django_db


def test_a_hand_over_reads_no_job_and_the_pods_only_when_they_can_exist(world: UnitWorld) -> None:
    world.seed(1)
    operation = world.create("a")
    world.run(operation)
    reads: list[tuple[str, ResourceKind | None]] = []
    world.cluster.on_call = lambda verb, kind: reads.append((verb, kind))
    row = GpuUnit.objects.get(name="a")

    for _ in range(2):
        GpuUnit.objects.filter(pk=row.pk).update(due_at=Now())
        reconciliation.run(UNITS, row.pk)

    pods = ("list", POD)
    # The pods of the stock unit before the start, and the pods of the unit after it.
    assert reads.count(pods) == 2
    assert reads.index(pods) < reads.index(("create", DEPLOYMENT)) < len(reads) - 1
    assert not any(kind == JOB for _, kind in reads)
