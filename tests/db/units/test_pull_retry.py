"""A unit whose image pull failed is started once more, with a stock unit of another node."""

from typing import Any

import pytest
from django.db.models.functions import Now

from gpuplatform.formats.image import canonical
from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, POD, Manifest
from gpuplatform.operations import driver as operations
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.provenance import applied_operation
from gpuplatform.reconciliation import driver
from gpuplatform.tenancy.selectors import tenant_by_name
from tests.factories.unit_resources import (
    NAMESPACE,
    handed_over,
    orphan_pod,
    stocked,
    work_off,
)
from tests.fakes.cluster import FakeCluster
from units.core.names import AVOIDED_NODE_ANNOTATION
from units.models import GpuUnit, NodeImages
from units.reconcile import UNITS
from units.services.pulls import unit_start_elsewhere
from units.services.units import unit_start, unit_stop

pytestmark = pytest.mark.django_db

NODE = "gpu-node-1"
FAILED = {"phase": "Failed", "reason": "PodStartupFailed", "cause": "ImagePullFailed"}


@pytest.fixture
def unit(cluster: FakeCluster) -> GpuUnit:
    """A unit whose image pull failed, beside one stock unit."""
    stocked(cluster, 2)
    found = handed_over(cluster, name="a")
    GpuUnit.objects.filter(pk=found.pk).update(**FAILED)
    return found


@pytest.fixture
def stock(unit: GpuUnit) -> GpuUnit:
    """The stock unit beside it, on another node."""
    GpuUnit.objects.filter(role="stock", consumed_by="").update(node="gpu-node-2")
    return GpuUnit.objects.get(role="stock", consumed_by="")


def resource(cluster: FakeCluster, row: GpuUnit) -> Manifest:
    found = cluster.get(GPU_UNIT, row.name, namespace=row.namespace)
    assert found is not None
    return found


def run_all(cluster: FakeCluster) -> None:
    """Execute all operations and reconcile all units."""
    for _ in range(4):
        for operation in Operation.objects.filter(phase__in=OPEN_PHASES).order_by("id"):
            Operation.objects.filter(pk=operation.pk).update(due_at=Now())
            operations.run(operation.pk)
        work_off(cluster, 3)


def affinity(cluster: FakeCluster) -> Any:
    deployment = cluster.get(DEPLOYMENT, "unit-a", namespace=NAMESPACE)
    assert deployment is not None
    return deployment["spec"]["template"]["spec"].get("affinity")


def test_a_stop_and_a_start_that_claims_the_stock_are_accepted(
    cluster: FakeCluster, unit: GpuUnit, stock: GpuUnit
) -> None:
    assert unit_start_elsewhere(resource(cluster, unit), NODE)

    stop, start = Operation.objects.order_by("id").filter(phase="Pending")
    stock.refresh_from_db()
    assert (stop.kind, start.kind, stock.claimed_by) == ("unit.stop", "unit.start", start)
    assert start.payload == {"avoidedNode": NODE}


def test_the_unit_starts_on_the_other_stock_and_avoids_the_node(
    cluster: FakeCluster, unit: GpuUnit, stock: GpuUnit
) -> None:
    unit_start_elsewhere(resource(cluster, unit), NODE)

    run_all(cluster)

    unit.refresh_from_db()
    stock.refresh_from_db()
    assert (unit.phase, unit.avoided_node, unit.source_uid) == ("Ready", NODE, stock.uid)
    assert stock.consumed_by == unit.uid
    assert NODE in str(affinity(cluster))


def test_repeated_calls_accept_nothing_more(
    cluster: FakeCluster, unit: GpuUnit, stock: GpuUnit
) -> None:
    failed = resource(cluster, unit)
    unit_start_elsewhere(failed, NODE)
    accepted = Operation.objects.count()

    assert not unit_start_elsewhere(failed, NODE)
    run_all(cluster)
    GpuUnit.objects.filter(pk=unit.pk).update(avoided_node="", **FAILED)
    assert not unit_start_elsewhere(failed, NODE)

    assert Operation.objects.count() == accepted


def test_the_operation_ids_of_an_owner_do_not_prevent_the_start(
    cluster: FakeCluster, unit: GpuUnit, stock: GpuUnit
) -> None:
    failed = resource(cluster, unit)
    for kind, service in (("stop", unit_stop), ("start", unit_start)):
        guess = f"other-node-{unit.pk}-{applied_operation(failed)}-{kind}"
        service(tenant=tenant_by_name(), name="a", operation_id=guess)
    Operation.objects.filter(operation_id__startswith="other-node-").update(
        phase="Succeeded", ended_at=Now(), due_at=None
    )
    GpuUnit.objects.filter(claimed_by__isnull=False).update(claimed_by=None)

    assert unit_start_elsewhere(failed, NODE)


@pytest.mark.parametrize(
    "change",
    [
        {"phase": "Ready"},
        {"cause": "OutOfMemory"},
        {"is_suspended": True},
        {"avoided_node": "gpu-node-2"},
        {"deletion_requested_at": Now()},
        {"tenant": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_nothing_is_accepted_for_a_unit_in_another_state(
    cluster: FakeCluster, unit: GpuUnit, stock: GpuUnit, change: dict[str, Any]
) -> None:
    GpuUnit.objects.filter(pk=unit.pk).update(**change)

    assert not unit_start_elsewhere(resource(cluster, unit), NODE)

    assert not Operation.objects.filter(phase="Pending").exists()


def test_nothing_is_accepted_beside_an_open_operation(
    cluster: FakeCluster, unit: GpuUnit, stock: GpuUnit
) -> None:
    unit_stop(tenant=tenant_by_name(), name="a", operation_id="by-hand")

    assert not unit_start_elsewhere(resource(cluster, unit), NODE)

    assert Operation.objects.filter(phase="Pending").count() == 1


def test_without_ready_stock_on_another_node_the_unit_is_not_stopped(
    cluster: FakeCluster, unit: GpuUnit, stock: GpuUnit
) -> None:
    GpuUnit.objects.filter(pk=stock.pk).update(phase="Progressing")

    assert not unit_start_elsewhere(resource(cluster, unit), NODE)

    assert not Operation.objects.filter(phase="Pending").exists()


def test_a_later_start_does_not_avoid_the_node(
    cluster: FakeCluster, unit: GpuUnit, stock: GpuUnit
) -> None:
    unit_start_elsewhere(resource(cluster, unit), NODE)
    run_all(cluster)
    stocked(cluster)

    unit_stop(tenant=tenant_by_name(), name="a", operation_id="stop")
    run_all(cluster)
    unit_start(tenant=tenant_by_name(), name="a", operation_id="start")
    run_all(cluster)

    unit.refresh_from_db()
    assert (unit.phase, unit.avoided_node) == ("Ready", "")
    assert AVOIDED_NODE_ANNOTATION not in resource(cluster, unit)["metadata"]["annotations"]
    assert affinity(cluster) is None


def test_the_reconciler_starts_the_unit_elsewhere(
    cluster: FakeCluster, unit: GpuUnit, stock: GpuUnit
) -> None:
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    failed = {
        "phase": "Pending",
        "startTime": "2026-01-31T12:00:00Z",
        "containerStatuses": [{"name": "runtime-worker", "state": waiting}],
    }
    _put_pod(cluster, unit, NODE, failed)
    deployment = cluster.get(DEPLOYMENT, "unit-a", namespace=NAMESPACE)
    assert deployment is not None
    deployment["status"]["availableReplicas"] = 0
    cluster.put(DEPLOYMENT, deployment)

    _reconcile(unit)

    start = Operation.objects.get(kind="unit.start")
    stock.refresh_from_db()
    assert (start.payload, stock.claimed_by) == ({"avoidedNode": NODE}, start)


@pytest.mark.parametrize(
    "change",
    [{"node": NODE}, {"node": ""}, {"spec_name": "other"}, {"resource_name": "amd.com/gpu"}],
    ids=["the same node", "an unknown node", "another GPU spec", "another resource"],
)
def test_other_stock_is_not_claimed(
    cluster: FakeCluster, unit: GpuUnit, stock: GpuUnit, change: dict[str, str]
) -> None:
    GpuUnit.objects.filter(pk=stock.pk).update(**change)

    assert not unit_start_elsewhere(resource(cluster, unit), NODE)

    assert not Operation.objects.filter(phase="Pending").exists()


def test_stock_of_a_node_that_has_the_image_is_preferred(
    cluster: FakeCluster, unit: GpuUnit, stock: GpuUnit
) -> None:
    stocked(cluster, 1)
    [warm] = GpuUnit.objects.filter(role="stock", consumed_by="").exclude(pk=stock.pk)
    GpuUnit.objects.filter(pk=warm.pk).update(node="gpu-node-3")
    NodeImages.objects.create(name="gpu-node-3", images=[canonical(unit.image)])

    assert unit_start_elsewhere(resource(cluster, unit), NODE)

    warm.refresh_from_db()
    assert (warm.claimed_by is not None, warm.is_warm_start) == (True, True)


def _put_pod(cluster: FakeCluster, row: GpuUnit, node: str, status: Manifest) -> None:
    for name in [one for one in cluster.names(POD) if row.name in one]:
        cluster.remove(POD, name, namespace=row.namespace)
    pod = orphan_pod(row, f"unit-{row.name}-0")
    pod["metadata"]["labels"]["runtime.lokiwager.io/spec"] = "g1.1"
    cluster.put(POD, {**pod, "spec": {"nodeName": node}, "status": status})


def _reconcile(unit: GpuUnit) -> None:
    for _ in range(2):
        GpuUnit.objects.filter(pk=unit.pk).update(due_at=Now())
        driver.run(UNITS, unit.pk)
