"""Events about pools and units, as `kubectl` shows them."""

import json
from operator import itemgetter

import pytest

from gpuplatform.kube.kinds import EVENT, STOCK_POOL, Manifest
from gpuplatform.reconciliation import event_writer
from tests.cluster.accounts import kubectl
from tests.cluster.pools import Pools
from tests.cluster.tenant_units import Units
from tests.cluster.world import World
from tests.fakes.fault_proxy import FaultProxy
from tests.fakes.faults import Refuse, Rule
from units.models import GpuUnit
from units.phases import STOCK_NAMESPACE, UnitRole
from units.services.stock import stock_remove

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

READY = "Normal DeploymentReady 1 of 1 pods are available."


@pytest.fixture(autouse=True)
def _speaking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outages of other tests do not delay Events."""
    monkeypatch.setattr(event_writer._Pause, "until", 0.0)


def shown_events(world: World, namespace: str, kind: str) -> list[Manifest]:
    """Return the output of `kubectl get events` about objects of a kind, sorted by reason."""
    found = kubectl(
        *(world.kubeconfig, "-n", namespace, "get", "events", "-o", "json"),
        f"--field-selector=involvedObject.kind={kind}",
    )
    return sorted(json.loads(found)["items"], key=itemgetter("reason"))


def shown(world: World, namespace: str, kind: str) -> list[str]:
    """Return type and reason of these Events."""
    return [f"{one['type']} {one['reason']}" for one in shown_events(world, namespace, kind)]


def _live_stock() -> bool:
    return GpuUnit.objects.filter(role=UnitRole.STOCK, deleted_at__isnull=True).exists()


def test_kubectl_shows_when_the_phase_of_a_pool_changed(world: World, pools: Pools) -> None:
    pools.by_hand("a", {"specName": "g1.1", "replicas": 1, "template": {"command": [" "]}})
    pools.settle("a", "Failed", "InvalidSpec")
    heal = {"spec": {"template": None}}
    pools.cluster.merge_patch(STOCK_POOL, "a", heal, namespace=pools.namespace)
    pools.settle("a", "Ready")
    scaled = {"spec": {"replicas": 0}}
    pools.cluster.merge_patch(STOCK_POOL, "a", scaled, namespace=pools.namespace)
    pools.settle("a", "Empty")

    described = kubectl(world.kubeconfig, "-n", pools.namespace, "describe", "stockpool", "a")

    listed = described.partition("Events:")[2]
    for reason in ("InvalidSpec", "DeploymentReady", "Scaled", "ScaledToZero"):
        assert reason in listed
    assert "gpu-platform" in listed
    assert shown(world, pools.namespace, "StockPool") == [
        "Normal DeploymentReady",
        "Warning InvalidSpec",
        "Normal Scaled",
        "Normal ScaledToZero",
    ]
    _, invalid, *_ = shown_events(world, pools.namespace, "StockPool")
    assert invalid["message"].startswith("spec.template.command: ")


def test_what_happens_again_is_one_event_that_is_counted_up(world: World, pools: Pools) -> None:
    pools.create("a", gpu=1)
    for replicas, phase in ((1, "Ready"), (0, "Empty"), (1, "Ready")):
        patch = {"spec": {"replicas": replicas}}
        pools.cluster.merge_patch(STOCK_POOL, "a", patch, namespace=pools.namespace)
        pools.settle("a", phase)

    [event] = [
        one
        for one in pools.live(EVENT)
        if one["involvedObject"]["kind"] == "StockPool" and one["reason"] == "DeploymentReady"
    ]
    assert event["count"] == 2
    assert event["lastTimestamp"] >= event["firstTimestamp"]


def test_a_deleted_pool_has_an_event(world: World, pools: Pools) -> None:
    pools.create("a", replicas=0)
    pools.settle("a", "Empty")

    pools.delete("a")
    pools.reconcile("a")

    assert "Normal Deleted" in shown(world, pools.namespace, "StockPool")


def test_events_that_are_refused_keep_nothing_from_its_end(
    world: World, pools: Pools, proxy: FaultProxy
) -> None:
    refused = Rule(Refuse(403, "Forbidden"), verbs=("create",), resource="events", times=100)
    proxy.add(refused)

    pools.create("a", gpu=1)
    row = pools.settle("a", "Ready")

    assert refused.hits > 0
    assert row.failures == 0
    assert shown(world, pools.namespace, "StockPool") == []


def test_a_hand_over_is_one_event_on_the_unit(
    world: World, units: Units, proxy: FaultProxy
) -> None:
    [stock] = units.seed(1)
    before = proxy.count("create", "events")

    units.create("a")
    units.settle("a", "Ready")
    units.until(lambda: not _live_stock())

    [event] = shown_events(world, units.namespace, "GPUUnit")
    assert (event["type"], event["reason"]) == ("Normal", "UnitReady")
    assert stock.name in event["message"]
    assert proxy.count("create", "events") - before == 1


@pytest.mark.usefixtures("later")
def test_a_unit_has_events_of_its_failure_stop_and_end(world: World, units: Units) -> None:
    units.seed(1)
    units.create("a", image="registry.example.invalid/team/app:1")
    units.settle("a", "Failed", "PodStartupFailed")
    units.stop("a")
    units.settle("a", "Stopped")
    units.delete("a")
    units.until(lambda: units.row("a").deleted_at)

    assert shown(world, units.namespace, "GPUUnit") == [
        "Normal Deleted",
        "Warning PodStartupFailed",
        "Normal Stopped",
    ]
    _, failed, _ = shown_events(world, units.namespace, "GPUUnit")
    assert "registry.example.invalid/team/app:1" in failed["message"]


def test_stock_has_events_of_its_readiness_and_removal(world: World, units: Units) -> None:
    [stock] = units.seed(1)

    removal = stock_remove(tenant=units.tenant, operation_id="rm", spec_name="g1.1", number=1)
    units.finish(removal)
    units.until(lambda: not _live_stock())

    about = f"involvedObject.uid={stock.uid}"
    events = units.cluster.list(EVENT, namespace=STOCK_NAMESPACE, field_selector=about).items
    assert sorted(one["reason"] for one in events) == ["Deleted", "StockReady"]
