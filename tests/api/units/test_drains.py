"""The routes of drains: requests, the progress of a drain, and the notice of a unit."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from gpuplatform.clock import parse_rfc3339
from gpuplatform.kube.kinds import NODE
from gpuplatform.operations import driver
from gpuplatform.operations.models import Operation
from inventory.models import NodeDrain
from inventory.services.nodes import nodes_update
from tests.factories.nodes import gpu_pod, node_manifest, records
from tests.factories.unit_rows import spec_row, stock_row, unit_row
from tests.fakes.api import UNITS, Answer, Api
from tests.fakes.cluster import FakeCluster
from units.models import GpuUnit

pytestmark = pytest.mark.django_db

NODES = "/api/v1/operator/nodes"
DRAIN = f"{NODES}/n1/drain"


@pytest.fixture
def unit(cluster: FakeCluster) -> GpuUnit:
    """A unit on the node n1, which also has a stock unit and a pod of another program."""
    unit = unit_row(name="trainer", node="n1")
    store(unit, is_cordoned=False)
    cluster.put(NODE, node_manifest())
    return unit


def store(unit: GpuUnit, *, is_cordoned: bool) -> None:
    stock = GpuUnit.objects.filter(role="stock").first() or stock_row(name="stock-a")
    pods = [gpu_pod("a", unit=unit.uid), gpu_pod("b", unit=stock.uid), gpu_pod("c")]
    found = records([node_manifest(is_cordoned=is_cordoned)], pods)
    nodes_update(found, version=1, is_complete=True)


def drain(api: Api, operation_id: str = "d1", **fields: Any) -> Answer:
    return api.post(DRAIN, {"operationID": operation_id, **fields})


def cancel(api: Api, operation_id: str = "c1") -> Answer:
    return api.post(f"{DRAIN}/cancel", {"operationID": operation_id})


def shown(api: Api) -> Any:
    [listed] = api.get(NODES).data
    found = api.get(f"{NODES}/n1").data["drain"]
    assert listed["drain"] == found
    return found


def test_a_drain_is_an_operation_that_cordons_the_node(
    api: Api, unit: GpuUnit, cluster: FakeCluster
) -> None:
    answer = drain(api)

    assert (answer.status, answer.data["kind"]) == (202, "node.drain")
    assert answer.data["object"]["href"] == f"{NODES}/n1"
    driver.run(Operation.objects.get().pk)
    assert Operation.objects.get().phase == "Succeeded"
    live = cluster.get(NODE, "n1")
    assert live is not None
    assert live["spec"]["unschedulable"] is True
    assert drain(api).status == 200
    assert drain(api, units="keep").status == 200
    assert drain(api, units="stop", noticeMinutes=5).code == "operation_conflict"


def test_the_progress_names_what_is_left_and_its_owners(api: Api, unit: GpuUnit) -> None:
    assert shown(api) is None
    drain(api)
    assert shown(api)["state"] == "Cordoning"

    store(unit, is_cordoned=True)
    found = shown(api)

    assert (found["operationID"], found["state"]) == ("d1", "MovingStock")
    assert (found["units"], found["deadline"]) == ("keep", None)
    assert (found["activeUnitCount"], found["stockUnitCount"]) == (1, 1)
    assert found["remaining"] == [
        {"namespace": unit.namespace, "name": "trainer", "tenant": "default"}
    ]


def test_a_stop_has_a_deadline_that_the_unit_shows(api: Api, unit: GpuUnit) -> None:
    other = unit_row(name="other", node="n2")
    drain(api, units="stop", noticeMinutes=30)

    found = shown(api)
    start, end = (parse_rfc3339(found[key]) for key in ("startedAt", "deadline"))
    assert (found["units"], end - start) == ("stop", timedelta(minutes=30))
    notice = api.get(f"{UNITS}/trainer").data["notice"]
    assert (notice["reason"], notice["stopsAt"]) == ("NodeDrain", found["deadline"])
    assert "n1" in notice["message"]
    listed = {one["name"]: one["notice"] for one in api.get(UNITS).data}
    assert listed == {"trainer": notice, other.name: None}


@pytest.mark.parametrize("changes", [{"is_suspended": True}, {"uid": "elsewhere"}])
def test_a_unit_that_leaves_has_no_notice(
    api: Api, unit: GpuUnit, changes: dict[str, Any]
) -> None:
    drain(api, units="stop", noticeMinutes=30)

    GpuUnit.objects.filter(pk=unit.pk).update(**changes)

    assert api.get(f"{UNITS}/trainer").data["notice"] is None


def test_a_unit_that_waits_for_stock_has_no_notice(api: Api, unit: GpuUnit) -> None:
    """It has no UID yet, as the pod of another program on the node has no owner."""
    spec_row("g1.1")
    GpuUnit.objects.filter(role="stock").update(claimed_by=None, phase="Progressing")
    body = {"operationID": "wait", "name": "waiting", "specName": "g1.1", "image": "a:1"}
    api.post(UNITS, {**body, "wait": {"maxSeconds": 60}})

    drain(api, units="stop", noticeMinutes=30)

    notices = {one["name"]: one["notice"] for one in api.get(UNITS).data}
    assert notices["waiting"] is None
    assert notices["trainer"] is not None


def test_a_drain_without_a_stop_gives_no_notice(api: Api, unit: GpuUnit) -> None:
    drain(api)

    assert api.get(f"{UNITS}/trainer").data["notice"] is None


def test_units_without_gpus_are_left_too(api: Api, unit: GpuUnit) -> None:
    unit_row(name="small", node="n1", gpu=0)
    unit_row(name="stopped", phase="Stopped", node="n1", gpu=0)
    drain(api)

    assert [one["name"] for one in shown(api)["remaining"]] == ["small", "trainer"]


def test_a_cancellation_ends_the_drain_and_the_node_stays_cordoned(
    api: Api, unit: GpuUnit, cluster: FakeCluster
) -> None:
    drain(api, units="stop", noticeMinutes=30)
    for one in Operation.objects.all():
        driver.run(one.pk)

    answer = cancel(api)

    assert (answer.status, answer.data["kind"]) == (202, "node.cancel-drain")
    assert shown(api) is None
    assert api.get(f"{UNITS}/trainer").data["notice"] is None
    live = cluster.get(NODE, "n1")
    assert live is not None
    assert live["spec"]["unschedulable"] is True
    assert cancel(api).status == 200
    assert cancel(api, "c2").code == "phase_conflict"
    assert not Operation.objects.filter(operation_id="c2").exists()


def test_an_uncordon_ends_the_drain(api: Api, unit: GpuUnit) -> None:
    drain(api)

    api.post(f"{NODES}/n1/uncordon", {"operationID": "u1"})

    assert shown(api) is None


def test_another_drain_replaces_the_drain(api: Api, unit: GpuUnit) -> None:
    drain(api, units="stop", noticeMinutes=30)

    assert drain(api, "d2").status == 202

    assert (shown(api)["operationID"], shown(api)["units"]) == ("d2", "keep")
    assert drain(api, units="stop", noticeMinutes=30).status == 200
    assert shown(api)["operationID"] == "d2", "a replay replaces nothing"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"units": "stop"}, "noticeMinutes"),
        ({"noticeMinutes": 1}, "noticeMinutes"),
        ({"units": "stop", "noticeMinutes": 1441}, "noticeMinutes"),
        ({"units": "evict"}, "units"),
        ({"grace": 1}, "grace"),
    ],
)
def test_an_invalid_drain_leaves_nothing(
    api: Api, unit: GpuUnit, body: dict[str, Any], field: str
) -> None:
    answer = drain(api, **body)

    assert (answer.status, answer.fields) == (400, [field])
    assert not Operation.objects.exists()
    assert not NodeDrain.objects.exists()


@pytest.mark.parametrize("path", ["n9/drain", "n9/drain/cancel"])
def test_an_unknown_node_is_not_found(api: Api, unit: GpuUnit, path: str) -> None:
    answer = api.post(f"{NODES}/{path}", {"operationID": "x"})

    assert (answer.status, answer.code) == (404, "not_found")
    assert not Operation.objects.exists()


def test_the_states_after_the_deadline(api: Api, unit: GpuUnit) -> None:
    drain(api, units="stop", noticeMinutes=30)
    store(unit, is_cordoned=True)
    GpuUnit.objects.filter(role="stock").update(deleted_at=Now())
    assert shown(api)["state"] == "NoticeGiven"

    NodeDrain.objects.update(deadline=Now())
    assert shown(api)["state"] == "StoppingUnits"

    nodes_update(records([node_manifest(is_cordoned=True)]), version=2, is_complete=True)
    assert shown(api)["state"] == "Drained"
