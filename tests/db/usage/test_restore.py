"""The ledger of a lost and of a restored database: no second first interval, nothing invented."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.db.models import F

from gpuplatform.kube.kinds import GPU_UNIT
from gpuplatform.operations.models import Operation
from gpuplatform.reconciliation.models import ClusterState
from gpuplatform.usage.models import EndBasis, UsageEpoch, UsageInterval
from tests.factories.unit_resources import NAMESPACE, handed_over, stocked, work_off
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import broker, catalogue, cluster
from units.models import GpuUnit

__all__ = ["broker", "catalogue", "cluster"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("broker", "catalogue")]


def recover() -> None:
    call_command("recover", stdout=StringIO())


def test_a_running_unit_of_a_lost_database_has_an_empty_interval(cluster: FakeCluster) -> None:
    stocked(cluster, 2)
    unit = handed_over(cluster, name="a")
    [source] = UsageInterval.objects.values_list("source_uid", flat=True)
    for model in (UsageInterval, GpuUnit, Operation, ClusterState):
        model.objects.all().delete()

    recover()
    recover()
    work_off(cluster)

    [row] = UsageInterval.objects.all()
    assert (row.unit_uid, row.source_uid, row.part) == (unit.uid, source, 1)
    assert (row.seen_at, row.ended_at) == (row.started_at, None)
    assert UsageEpoch.objects.count() == 3


def test_a_unit_that_ended_after_the_backup_is_charged_until_the_last_sight(
    cluster: FakeCluster,
) -> None:
    stocked(cluster, 2)
    handed_over(cluster, name="a")
    UsageInterval.objects.update(
        started_at=F("started_at") - timedelta(hours=2), seen_at=F("seen_at") - timedelta(hours=1)
    )
    cluster.remove(GPU_UNIT, "a", namespace=NAMESPACE)

    recover()

    [row] = UsageInterval.objects.all()
    assert (row.ended_at, row.end_basis) == (row.seen_at, EndBasis.ESTIMATED)
    assert row.uncertain_seconds >= 3600
