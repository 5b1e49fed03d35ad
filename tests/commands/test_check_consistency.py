"""`check_consistency` and `reconcile_all`: output and exit codes."""

from collections.abc import Callable
from contextlib import suppress
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now
from pytest_django import Settings

from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, POD, STOCK_POOL
from gpuplatform.operations.models import Operation
from gpuplatform.queueing import Queue
from gpuplatform.reconciliation.models import ClusterState
from inventory.models import StockPool
from tests.factories.inventory import accept_create, pool_resource
from tests.factories.unit_resources import (
    NAMESPACE,
    accept_unit,
    finished,
    handed_over,
    orphan_pod,
    stocked,
    unit_resource,
    work_off,
)
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import Broker
from units.models import GpuUnit
from units.phases import STOCK_NAMESPACE, UnitRole

pytestmark = pytest.mark.django_db


def run(command: str, *arguments: str) -> str:
    output = StringIO()
    call_command(command, *arguments, stdout=output)
    return output.getvalue()


def faults(wait: float = 0) -> list[str]:
    """Return the reported inconsistencies, or an empty list if the command exits with 0."""
    output = StringIO()
    with suppress(CommandError):
        call_command("check_consistency", f"--wait={wait}", stdout=output)
    lines = output.getvalue().splitlines()
    return [] if lines == ["The database and the cluster are consistent."] else lines


def the_stock() -> GpuUnit:
    return GpuUnit.objects.get(role=UnitRole.STOCK, deleted_at__isnull=True)


def a_unit_without_a_row(cluster: FakeCluster) -> None:
    cluster.put(GPU_UNIT, unit_resource("secret"))


def a_row_without_a_unit(cluster: FakeCluster) -> None:
    cluster.remove(GPU_UNIT, the_stock().name, namespace=STOCK_NAMESPACE)


def a_row_that_nobody_makes(_: FakeCluster) -> None:
    GpuUnit.objects.filter(pk=the_stock().pk).update(uid="")


def a_pod_without_a_unit(cluster: FakeCluster) -> None:
    row = GpuUnit(name="gone", namespace=NAMESPACE, uid="gone")
    pod = orphan_pod(row)
    pod["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "gpu-platform"
    cluster.put(POD, pod)


def a_claim_that_nobody_needs(_: FakeCluster) -> None:
    ended = Operation.objects.filter(phase="Succeeded").first()
    GpuUnit.objects.filter(pk=the_stock().pk).update(claimed_by=ended)


def consumed_stock_that_stays(_: FakeCluster) -> None:
    unit = GpuUnit.objects.get(role=UnitRole.ACTIVE)
    GpuUnit.objects.filter(pk=the_stock().pk).update(consumed_by=unit.uid, consumed_at=Now())


def stock_that_nobody_consumed(_: FakeCluster) -> None:
    GpuUnit.objects.filter(pk=the_stock().pk).update(consumed_by="nobody", consumed_at=Now())


def a_unit_whose_stock_is_another_ones(_: FakeCluster) -> None:
    unit = GpuUnit.objects.get(role=UnitRole.ACTIVE)
    GpuUnit.objects.filter(consumed_by=unit.uid).update(consumed_by="another")


def a_unit_whose_stock_is_not_consumed(_: FakeCluster) -> None:
    GpuUnit.objects.exclude(consumed_by="").update(consumed_by="", consumed_at=None)


def two_units_with_one_source(cluster: FakeCluster) -> None:
    """A unit of another operation names the stock of the first unit."""
    [source] = GpuUnit.objects.filter(role=UnitRole.STOCK).exclude(consumed_by="")
    other = handed_over(cluster, name="b")
    unit = cluster.get(GPU_UNIT, other.name, namespace=NAMESPACE)
    assert unit is not None
    unit["metadata"]["annotations"].update(
        {
            "runtime.lokiwager.io/source-stock-name": source.name,
            "runtime.lokiwager.io/source-stock-uid": source.uid,
        }
    )
    cluster.put(GPU_UNIT, unit)


def an_operation_that_made_two(cluster: FakeCluster) -> None:
    unit = cluster.get(GPU_UNIT, "a", namespace=NAMESPACE)
    assert unit is not None
    managed = [{"manager": "gpu-platform", "operation": "Update"}]
    cluster.put(GPU_UNIT, {**unit, "metadata": {**unit["metadata"], "managedFields": managed}})
    twin = {**unit["metadata"], "name": "twin", "uid": "twin", "managedFields": managed}
    cluster.put(GPU_UNIT, {**unit, "metadata": twin})


def a_pool_without_a_row(cluster: FakeCluster) -> None:
    cluster.put(STOCK_POOL, pool_resource("secret"))


def a_pool_that_is_lost(cluster: FakeCluster) -> None:
    finished(accept_create(name="lost"))
    cluster.remove(STOCK_POOL, "lost", namespace="runtime-pools")


@pytest.mark.parametrize(
    ("meddle", "word", "name"),
    [
        (a_unit_without_a_row, "leaked", f"{NAMESPACE}/secret"),
        (a_row_without_a_unit, "lost", STOCK_NAMESPACE),
        (a_row_that_nobody_makes, "lost", STOCK_NAMESPACE),
        (a_pod_without_a_unit, "orphaned", f"Pod {NAMESPACE}/left-over"),
        (a_claim_that_nobody_needs, "leaked", STOCK_NAMESPACE),
        (consumed_stock_that_stays, "leaked", STOCK_NAMESPACE),
        (stock_that_nobody_consumed, "lost", STOCK_NAMESPACE),
        (a_unit_whose_stock_is_another_ones, "doubled", f"{NAMESPACE}/a"),
        (a_unit_whose_stock_is_not_consumed, "leaked", f"{NAMESPACE}/a"),
        (two_units_with_one_source, "doubled", f"{NAMESPACE}/b"),
        (an_operation_that_made_two, "doubled", f"{NAMESPACE}/twin"),
        (a_pool_without_a_row, "leaked", "runtime-pools/secret"),
        (a_pool_that_is_lost, "lost", "runtime-pools/lost"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_each_kind_of_fault_is_printed_and_exits_with_1(
    cluster: FakeCluster, meddle: Callable[[FakeCluster], None], word: str, name: str
) -> None:
    stocked(cluster, 2)
    handed_over(cluster, name="a")
    assert faults() == []

    meddle(cluster)

    with pytest.raises(CommandError, match="inconsistent objects") as caught:
        run("check_consistency", "--wait=0")
    assert caught.value.returncode == 1
    assert any(line.startswith(f"{word}: {name}") for line in faults()), faults()


def test_a_pod_without_its_label_still_belongs_to_its_unit(cluster: FakeCluster) -> None:
    [row] = stocked(cluster)
    [pod] = cluster.list(POD, namespace=STOCK_NAMESPACE).items
    del pod["metadata"]["labels"]["runtime.lokiwager.io/unit-uid"]
    cluster.put(POD, pod)
    assert faults() == []

    cluster.remove(GPU_UNIT, row.name, namespace=STOCK_NAMESPACE)
    GpuUnit.objects.filter(pk=row.pk).update(deleted_at=Now())
    cluster.put(POD, pod)

    assert any(line.startswith(f"orphaned: Pod {STOCK_NAMESPACE}/") for line in faults())


def test_a_change_in_progress_is_not_a_fault(cluster: FakeCluster) -> None:
    stocked(cluster, 2)
    accept_unit(name="waits")
    finished(accept_unit(name="made"))
    GpuUnit.objects.filter(consumed_by="").update(due_at=None)
    work_off(cluster, 2)
    cluster.remove(GPU_UNIT, "made", namespace=NAMESPACE)
    row = GpuUnit.objects.get(name="made")
    cluster.put(POD, orphan_pod(row))
    work_off(cluster, 1)

    assert faults() == []


def test_a_difference_that_disappears_while_waiting_is_not_a_fault(cluster: FakeCluster) -> None:
    stocked(cluster)
    a_unit_without_a_row(cluster)
    reads = iter([None, None, None])

    def taken_away(verb: str, kind: object) -> None:
        if (verb, kind) == ("list", POD) and next(reads, "over") is None:
            cluster.remove(GPU_UNIT, "secret", namespace=NAMESPACE)

    assert faults()
    cluster.on_call = taken_away

    assert faults(wait=30) == []


@pytest.mark.parametrize("wait", ["-1", "nan", "inf", "soon"])
def test_an_invalid_wait_is_rejected(wait: str) -> None:
    with pytest.raises(CommandError, match="seconds"):
        run("check_consistency", f"--wait={wait}")


def test_it_changes_nothing(cluster: FakeCluster) -> None:
    stocked(cluster, 2)
    a_unit_without_a_row(cluster)
    before = list(cluster.writes), list(GpuUnit.objects.values())

    faults()

    assert (list(cluster.writes), list(GpuUnit.objects.values())) == before


@pytest.mark.parametrize("command", ["check_consistency", "reconcile_all"])
def test_a_cluster_that_cannot_be_read_decides_nothing(cluster: FakeCluster, command: str) -> None:
    cluster.fail("list", None, ClusterUnavailable("connection refused"))

    with pytest.raises(CommandError, match="could not be read"):
        run(command)


@pytest.mark.parametrize("command", ["check_consistency", "reconcile_all"])
def test_it_reports_a_missing_cluster(settings: Settings, command: str) -> None:
    settings.KUBE_MODE = "off"

    with pytest.raises(CommandError, match="KUBE_MODE"):
        run(command)


def test_a_dry_run_prints_what_would_be_done(cluster: FakeCluster) -> None:
    [stock] = stocked(cluster)
    finished(accept_create(name="p"))
    cluster.remove(DEPLOYMENT, f"unit-{stock.name}", namespace=STOCK_NAMESPACE)
    cluster.writes.clear()

    output = run("reconcile_all", "--dry-run")

    assert f"GPUUnit {STOCK_NAMESPACE}/{stock.name}\n" in output
    assert f"  create Deployment {STOCK_NAMESPACE}/unit-{stock.name}\n" in output
    assert "  status: Progressing StockNotReady\n" in output
    assert "StockPool runtime-pools/p\n" in output
    assert "2 resources differ." in output
    assert cluster.writes == []
    assert not GpuUnit.objects.exclude(due_at=None).exists()


def test_a_dry_run_over_what_is_settled_prints_nothing(cluster: FakeCluster) -> None:
    stocked(cluster, 2)
    handed_over(cluster)

    assert run("reconcile_all", "--dry-run") == "0 resources differ. Nothing was changed.\n"


def test_a_real_run_marks_what_differs_and_hints_at_it(
    cluster: FakeCluster, broker: Broker
) -> None:
    stocked(cluster, 2)
    cluster.put(GPU_UNIT, unit_resource("by-hand"))
    cluster.put(STOCK_POOL, pool_resource("by-hand"))

    assert "Enqueued 1 pools and 1 units." in run("reconcile_all")

    assert broker.hints(Queue.RECONCILE) == 2
    assert GpuUnit.objects.get(name="by-hand").due_at is not None
    assert StockPool.objects.get().due_at is not None


def test_a_foreign_cluster_is_not_compared(cluster: FakeCluster) -> None:
    ClusterState.objects.update_or_create(id=1, defaults={"recovery_reason": "Another database."})

    with pytest.raises(CommandError, match="recover"):
        run("reconcile_all")
