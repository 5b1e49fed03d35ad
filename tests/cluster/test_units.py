"""The guarantees of the platform for stock and GPU units on an API server."""

import threading
from typing import Any

import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, SERVICE, Manifest
from gpuplatform.operations.models import Operation
from tests.cluster.control import Control
from tests.cluster.pools import Pools
from tests.cluster.tenant_units import HTTP, Units
from tests.fakes.fault_proxy import FaultProxy
from units.comparison import compare_all, delete_leftovers
from units.core.sources import SourceReference
from units.models import GpuUnit
from units.observation import observe_unit
from units.phases import STOCK_NAMESPACE
from units.selectors import capacity_by_spec

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

WRITES = ("create", "update", "patch", "delete")


def pod_spec(deployment: Manifest) -> dict[str, Any]:
    found: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return found


def counts() -> tuple[int, int, int]:
    """Return the numbers of ready stock, active units, and all stock."""
    [spec] = capacity_by_spec()
    return spec.ready, spec.active, spec.total


def test_seeded_stock_gets_ready_with_a_deployment_and_no_service(units: Units) -> None:
    rows = units.seed(3, memory="1Gi")

    for row in rows:
        assert (row.phase, row.reason, row.ready_replicas) == ("Ready", "StockReady", 1)
        assert (row.service_name, row.access_url) == ("", "")
        assert units.live(SERVICE, row) is None
        spec = pod_spec(units.deployment(row))
        assert spec["priorityClassName"] == "gpu-platform-stock"
        limits = spec["containers"][0]["resources"]["limits"]
        assert limits == {"memory": "1Gi", "nvidia.com/gpu": "1"}
        assert row.observed_generation == row.generation
    assert counts() == (3, 0, 3)


def test_a_unit_consumes_stock_and_reports_its_access_url(units: Units) -> None:
    [stock] = units.seed(1)

    operation = units.create("a")
    row = units.settle("a", "Ready", "UnitReady")

    stock.refresh_from_db()
    assert operation.object_uid == row.uid
    assert (row.source_name, row.source_uid) == (stock.name, stock.uid)
    assert stock.consumed_by == row.uid
    assert row.service_name == "unit-a"
    assert row.access_url == f"http://unit-a.{units.namespace}.svc.cluster.local:8080"
    service = units.live(SERVICE, row)
    assert service is not None
    assert service["spec"]["ports"][0]["port"] == 8080
    assert pod_spec(units.deployment(row))["priorityClassName"] == "gpu-platform-unit"
    assert units.live(GPU_UNIT, stock) is None
    units.until(lambda: counts() == (0, 1, 0))


def test_a_unit_waits_until_the_pods_of_its_stock_are_gone(units: Units, control: Control) -> None:
    [stock] = units.seed(1)
    control(holdTerminating=True)

    units.create("a")
    units.until(lambda: units.live(DEPLOYMENT, stock) is None)
    row = units.settle("a", "Progressing", "WaitingForStock")
    units.tick()

    assert "pods still run" in row.message
    assert units.live(DEPLOYMENT, row) is None
    stock.refresh_from_db()
    assert (stock.phase, stock.deleted_at) == ("Terminating", None)
    control.clear()
    units.settle("a", "Ready")
    stock.refresh_from_db()
    assert stock.deleted_at is not None


def test_a_stopped_unit_gives_its_gpu_up_and_starts_on_other_stock(units: Units) -> None:
    [_, second] = units.seed(2)
    units.create("a")
    first_run = units.settle("a", "Ready")

    units.stop("a")
    row = units.settle("a", "Stopped")
    assert units.pods(row) == []
    assert units.deployment(row)["spec"]["replicas"] == 0
    assert units.live(SERVICE, row) is not None
    assert row.is_suspended

    units.start("a")
    again = units.settle("a", "Ready")

    assert again.uid == first_run.uid
    assert again.source_uid == second.uid
    assert not again.is_suspended
    assert len(units.pods(again)) == 1


def test_a_unit_stopped_at_once_has_a_deployment_at_zero(units: Units) -> None:
    units.seed(1)
    units.create("a")

    units.stop("a")
    row = units.settle("a", "Stopped")

    assert units.deployment(row)["spec"]["replicas"] == 0
    units.until(lambda: counts() == (0, 1, 0))


def test_what_is_settled_changes_nothing_in_the_cluster(units: Units, proxy: FaultProxy) -> None:
    units.seed(2)
    units.create("a")
    units.settle("a", "Ready")
    units.tick()
    before = {verb: proxy.count(verb) for verb in WRITES}

    for _ in range(3):
        units.tick()
    due = compare_all(units.platform())

    assert due == []
    assert {verb: proxy.count(verb) for verb in WRITES} == before


def test_drift_in_fields_of_ours_is_put_back_and_others_are_left(units: Units) -> None:
    units.seed(1)
    units.create("a")
    row = units.settle("a", "Ready")
    name = units.deployment(row)["metadata"]["name"]
    drifted = {"metadata": {"annotations": {"theirs": "stays"}}, "spec": {"replicas": 3}}
    units.cluster.merge_patch(DEPLOYMENT, name, drifted, namespace=units.namespace)
    units.cluster.delete(SERVICE, name, namespace=units.namespace)

    due = compare_all(units.platform())
    units.until(lambda: units.deployment(row)["spec"]["replicas"] == 1)
    units.settle("a", "Ready")

    assert row.pk in due
    assert units.deployment(row)["metadata"]["annotations"]["theirs"] == "stays"
    assert units.live(SERVICE, row) is not None
    units.until(lambda: len(units.pods(row)) == 1)


def test_a_deployment_that_kubectl_deletes_is_made_again(units: Units) -> None:
    units.seed(1)
    units.create("a")
    row = units.settle("a", "Ready")
    before = units.deployment(row)["metadata"]

    units.cluster.delete(DEPLOYMENT, before["name"], namespace=units.namespace)
    units.tick()
    units.settle("a", "Ready")

    assert units.deployment(row)["metadata"]["uid"] != before["uid"]


@pytest.mark.usefixtures("later")
def test_an_image_that_cannot_be_pulled_fails_the_unit_and_counts_its_stock_once(
    units: Units,
) -> None:
    units.seed(1)

    units.create("a", image="registry.example.invalid/team/app:1")
    row = units.settle("a", "Failed", "PodStartupFailed")

    assert "registry.example.invalid/team/app:1" in row.message
    units.until(lambda: counts() == (0, 1, 0))
    units.delete("a")
    units.until(lambda: counts() == (0, 0, 0))


def test_stock_that_kubectl_deletes_is_never_handed_out(units: Units) -> None:
    [first, second] = units.seed(2)
    accepted = units.accept("a")
    units.cluster.delete(GPU_UNIT, first.name, namespace=STOCK_NAMESPACE)

    units.finish(accepted)
    row = units.settle("a", "Ready")

    assert row.source_uid == second.uid
    units.until(lambda: counts() == (0, 1, 0))
    first.refresh_from_db()
    assert (first.consumed_by, first.claimed_by) == ("", None)


def test_stock_deleted_after_it_was_consumed_changes_nothing(units: Units) -> None:
    [stock] = units.seed(1)
    units.create("a")

    units.cluster.delete(GPU_UNIT, stock.name, namespace=STOCK_NAMESPACE)
    row = units.settle("a", "Ready")

    stock.refresh_from_db()
    assert stock.consumed_by == row.uid


def test_a_unit_made_by_hand_that_names_stock_takes_none(units: Units) -> None:
    [stock] = units.seed(1)
    marks = SourceReference(stock.name, stock.uid).annotations()

    units.by_hand("by-hand", annotations=marks)
    row = units.settle("by-hand", "Ready")

    stock.refresh_from_db()
    assert (stock.phase, stock.consumed_by) == ("Ready", "")
    assert pod_spec(units.deployment(row))["priorityClassName"] == "gpu-platform-stock"
    units.create("a")
    units.settle("a", "Ready")


def test_a_deleted_unit_counts_until_its_pods_are_gone(units: Units, control: Control) -> None:
    units.seed(1)
    units.create("a")
    row = units.settle("a", "Ready")
    control(holdTerminating=True)

    units.delete("a")
    units.until(lambda: units.live(DEPLOYMENT, row) is None)
    units.tick()

    row.refresh_from_db()
    assert (row.phase, row.deleted_at) == ("Terminating", None)
    assert counts()[1] == 1
    control.clear()
    units.until(lambda: counts()[1] == 0)
    assert units.live(SERVICE, row) is None


def test_what_late_workers_leave_behind_is_swept_and_nothing_else(units: Units) -> None:
    [stock, kept] = units.seed(2)
    originals = [units.live(GPU_UNIT, stock)]
    units.create("a")
    row = units.settle("a", "Ready")
    originals.append(units.live(GPU_UNIT, row))
    units.delete("a")
    units.until(lambda: GpuUnit.objects.filter(deleted_at__isnull=True).count() == 1)
    for original in originals:
        assert original is not None
        metadata = {key: original["metadata"][key] for key in ("name", "namespace", "annotations")}
        late = {key: original[key] for key in ("apiVersion", "kind", "spec")}
        units.platform().create(GPU_UNIT, {**late, "metadata": metadata})
    compare_all(units.platform())
    units.tick()

    assert delete_leftovers(units.platform()) == 2

    left = [unit["metadata"]["name"] for unit in units.cluster.list(GPU_UNIT).items]
    assert left == [kept.name]
    assert units.cluster.get(DEPLOYMENT, f"unit-{stock.name}", namespace=STOCK_NAMESPACE) is None


def test_what_is_read_one_by_one_and_at_once_is_the_same(units: Units) -> None:
    units.seed(1)
    units.create("a")
    row = units.settle("a", "Ready")
    unit = units.live(GPU_UNIT, row)
    assert unit is not None

    observed = observe_unit(units.platform(), unit)

    assert compare_all(units.platform()) == []
    assert type(observed.source).__name__ == "SourceUnread"  # not needed while it runs


def test_the_controller_copies_units_and_marks_them_by_what_they_own(
    units: Units, watching: threading.Event
) -> None:
    watching.set()
    made = units.cluster.create(
        GPU_UNIT,
        {
            "apiVersion": GPU_UNIT.api_version,
            "kind": GPU_UNIT.kind,
            "metadata": {"name": "seen", "namespace": units.namespace},
            "spec": {"specName": "g1.1", "image": "busybox:1.36", "template": HTTP},
        },
    )
    rows = GpuUnit.objects.filter(uid=made["metadata"]["uid"])
    Pools.wait(rows.exists, lambda: "the unit was not seen")
    units.settle("seen", "Ready")
    rows.update(due_at=None)
    units.cluster.delete(DEPLOYMENT, "unit-seen", namespace=units.namespace)
    due = rows.filter(due_at__isnull=False)
    Pools.wait(due.exists, lambda: "a child that went did not mark it")
    units.settle("seen", "Ready")
    rows.update(due_at=None)
    units.cluster.delete(GPU_UNIT, "seen", namespace=units.namespace)
    Pools.wait(due.exists, lambda: "its own end did not mark it")
    assert not Operation.objects.exists()
