"""Deletion of consumed stock after the success, and at the reconciliation of its consumer."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.kube.kinds import GPU_UNIT, Manifest, ResourceKind
from gpuplatform.operations.models import Operation
from gpuplatform.operations.registry import Done
from tests.fakes.cluster import Killed
from tests.fakes.unit_world import UnitWorld, stock_rows, unit_row
from units.core.sources import SourceReference
from units.models import GpuUnit
from units.operations.handover import release_stock
from units.services.claims import GPU_RELEASE_SECONDS

pytestmark = pytest.mark.django_db


def due_within(seconds: float) -> set[str]:
    rows = GpuUnit.objects.filter(due_at__lte=Now() + timedelta(seconds=seconds))
    return {row.name for row in rows}


def test_the_worker_that_records_the_consumption_deletes_the_stock(world: UnitWorld) -> None:
    world.seed(2)

    world.run(world.create("a"))

    first, second = stock_rows()
    assert world.cluster.names(GPU_UNIT) == ["a", second.name]
    assert due_within(1) == set(), "the end of the stock's pods is the event that is waited for"
    assert due_within(GPU_RELEASE_SECONDS) == {"a", first.name}


def test_stock_that_the_worker_did_not_delete_is_deleted_by_its_planner(world: UnitWorld) -> None:
    world.seed(1)
    world.cluster.fail("delete", GPU_UNIT, ClusterUnavailable("cut"))

    operation = world.run(world.create("a"))

    [stock] = stock_rows()
    assert (operation.phase, stock.deleted_at) == ("Succeeded", None)
    assert due_within(0) == {stock.name}
    world.work()
    assert world.cluster.names(GPU_UNIT) == ["a"]
    assert unit_row("a").phase == "Ready"


def test_stock_that_another_unit_consumed_is_not_deleted(world: UnitWorld) -> None:
    world.seed(2)
    operation = world.run(world.create("a"))
    other = stock_rows()[1]
    unit = world.resource("a") or {}
    annotations = SourceReference(other.name, other.uid).annotations()
    named = {**unit, "metadata": {**unit["metadata"], "annotations": annotations}}

    release_stock(world.cluster, operation, Done(named))

    assert other.name in world.cluster.names(GPU_UNIT)


def test_a_unit_whose_stock_is_gone_is_due_immediately(world: UnitWorld) -> None:
    world.seed(1)
    operation = world.create("a")
    post = late_post(world, operation)
    [stock] = stock_rows()
    world.drop_stock(stock)
    world.reconcile()
    world.cluster.create(GPU_UNIT, post)

    assert world.run(operation).phase == "Succeeded"

    stock.refresh_from_db()
    assert stock.consumed_by == unit_row("a").uid != ""
    assert due_within(0) == {"a"}


def test_stock_that_is_gone_is_not_read_again(world: UnitWorld) -> None:
    world.seed(1)
    world.run(world.create("a"))
    world.reconcile()
    [stock] = stock_rows()
    assert stock.deleted_at is not None, "closed by the unit's own turn"
    world.cluster.settle()
    calls: list[str] = []
    world.cluster.on_call = lambda verb, kind: calls.append(f"{verb} {kind.kind if kind else ''}")

    world.reconcile()

    assert unit_row("a").phase == "Ready"
    observed = ["get GPUUnit", "get Deployment", "get Service", "list Pod"]
    assert calls == [*observed, "patch GPUUnit"]


def test_a_stale_read_does_not_close_the_row(world: UnitWorld) -> None:
    world.seed(1)
    world.run(world.create("a"))
    GpuUnit.objects.filter(role="stock").update(resource_version=10**9)

    world.reconcile()

    [stock] = stock_rows()
    assert stock.deleted_at is None
    assert world.deployment("a") is None


def late_post(world: UnitWorld, operation: Operation) -> Manifest:
    """Stall a worker at its POST; return the manifest that it would write."""
    posts: list[Manifest] = []

    def stall(_: ResourceKind, manifest: Manifest) -> Manifest:
        posts.append(manifest)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.cluster, "create", stall)
        with pytest.raises(Killed):
            world.run(operation)
    return posts[0]
