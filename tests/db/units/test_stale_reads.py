"""A stale read of a unit deletes nothing."""

import threading
from dataclasses import dataclass

import pytest
from pytest_django import Settings
from typing_extensions import override

from gpuplatform.kube import modes
from gpuplatform.kube.client import Listing
from gpuplatform.kube.kinds import GPU_UNIT, Manifest, ResourceKind
from gpuplatform.process_local import ProcessLocal
from gpuplatform.reconciliation import driver, epoch
from tests.fakes.unit_world import NAMESPACE, ManagedCluster, UnitWorld
from units.models import GpuUnit
from units.phases import STOCK_NAMESPACE
from units.reconcile import UNITS
from units.services.claims import reconcile_soon

pytestmark = pytest.mark.django_db


@dataclass
class StaleCluster(ManagedCluster):
    """Responds to reads of some units with the state before their creation."""

    unseen: str = ""
    """The namespace with invisible units."""
    lists_are_stale: bool = False

    @override
    def get(
        self, kind: ResourceKind, name: str, *, namespace: str | None = None
    ) -> Manifest | None:
        if kind == GPU_UNIT and namespace == self.unseen:
            return None
        return super().get(kind, name, namespace=namespace)

    @override
    def list(
        self,
        kind: ResourceKind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Listing:
        if kind == GPU_UNIT and self.lists_are_stale:
            return Listing([], "100")
        return super().list(
            kind,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )


@pytest.fixture
def cluster(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> StaleCluster:
    settings.KUBE_MODE = "required"
    cluster = StaleCluster()
    monkeypatch.setattr(modes, "_REQUESTS", ProcessLocal(lambda: cluster))
    monkeypatch.setattr(epoch, "_COMPARED", ProcessLocal(threading.Event))
    return cluster


STALE = pytest.mark.parametrize("lists_are_stale", [False, True], ids=["get", "get and list"])


@STALE
def test_a_stale_read_does_not_change_the_row(
    cluster: StaleCluster, *, lists_are_stale: bool
) -> None:
    UnitWorld(cluster).seed(1)
    stock = GpuUnit.objects.get()
    cluster.unseen, cluster.lists_are_stale = STOCK_NAMESPACE, lists_are_stale
    reconcile_soon(GpuUnit.objects.all())

    wait = driver.run(UNITS, stock.pk)

    stock.refresh_from_db()
    assert (stock.phase, stock.deleted_at, stock.deletion_requested_at) == ("Ready", None, None)
    assert wait is not None, "it is read again soon"


@STALE
def test_a_stale_read_does_not_move_the_claim(
    cluster: StaleCluster, *, lists_are_stale: bool
) -> None:
    world = UnitWorld(cluster)
    world.seed(2)
    operation = world.create("a")
    [claimed] = GpuUnit.objects.filter(claimed_by=operation)
    cluster.unseen, cluster.lists_are_stale = STOCK_NAMESPACE, lists_are_stale

    assert world.run(operation).reason == "Conflict"

    cluster.unseen = ""
    assert world.run(operation).phase == "Succeeded"
    claimed.refresh_from_db()
    assert claimed.consumed_by == GpuUnit.objects.get(name="a").uid


@STALE
def test_a_stale_read_does_not_end_a_deletion(
    cluster: StaleCluster, *, lists_are_stale: bool
) -> None:
    world = UnitWorld(cluster)
    world.seed(1)
    world.finish(world.create("a"))
    deletion = world.delete("a")
    cluster.unseen, cluster.lists_are_stale = NAMESPACE, lists_are_stale

    assert world.run(deletion).reason == "Conflict"

    cluster.unseen = ""
    assert world.run(deletion).phase == "Succeeded"
    assert "a" not in cluster.names(GPU_UNIT)
