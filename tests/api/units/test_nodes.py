"""The routes of nodes: their capacity, their pods, and cordons as operations."""

from typing import Any

import pytest

from gpuplatform.kube.errors import ClusterConflict
from gpuplatform.kube.kinds import NODE, Manifest
from gpuplatform.operations import driver
from gpuplatform.operations.models import Operation
from gpuplatform.operations.provenance import APPLIED_OPERATION_ANNOTATION
from inventory.services.nodes import nodes_update
from tests.factories.nodes import H100, L40S, gpu_pod, node_manifest, records
from tests.factories.unit_rows import unit_row
from tests.fakes.api import INVENTORY, JOBS, Api
from tests.fakes.cluster import FakeCluster

pytestmark = pytest.mark.django_db

NODES = "/api/v1/operator/nodes"


def store(nodes: list[Manifest], pods: list[Manifest] | None = None) -> None:
    nodes_update(records(nodes, pods or []), version=1, is_complete=True)


def ran(operation_id: str) -> Operation:
    operation = Operation.objects.get(operation_id=operation_id)
    driver.run(operation.pk)
    operation.refresh_from_db()
    return operation


def test_a_node_has_its_state_its_gpus_and_its_pods(api: Api) -> None:
    unit = unit_row()
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    node = node_manifest(is_cordoned=True, taints=[taint], pressures=["DiskPressure"])
    store([node], [gpu_pod("a", unit=unit.uid, gpus=2), gpu_pod("b")])

    found = api.get(f"{NODES}/n1").data

    assert (found["name"], found["product"], found["exists"]) == ("n1", H100, True)
    assert (found["ready"], found["schedulable"]) == (True, False)
    assert (found["pressures"], found["taints"]) == (
        ["DiskPressure"],
        ["nvidia.com/gpu=present:NoSchedule"],
    )
    [gpus] = found["resources"]
    assert (gpus["allocatable"], gpus["free"], gpus["excess"]) == (8, 5, 0)
    assert gpus["uses"] == {"active": 2, "others": 1}
    ours, others = found["pods"]
    assert (ours["ownerKind"], ours["ownerName"], ours["tenant"]) == (
        "GPUUnit",
        unit.name,
        "default",
    )
    assert (ours["use"], ours["gpus"]) == ("active", {"nvidia.com/gpu": 2})
    assert (others["use"], others["ownerKind"], others["tenant"]) == ("others", None, None)


def test_the_nodes_and_the_inventory_have_the_same_numbers(api: Api) -> None:
    nodes = [node_manifest("n1"), node_manifest("n2"), node_manifest("n3", 4, product=L40S)]
    store(nodes, [gpu_pod("a", "n2", 3)])

    listed = api.get(NODES).data
    products = {one["product"]: one for one in api.get(INVENTORY).data["products"]}

    assert [one["name"] for one in listed] == ["n3", "n2", "n1"]
    free = [one["resources"][0]["free"] for one in listed if one["product"] == H100]
    assert sum(free) == products[H100]["free"] == 13
    assert products[L40S]["free"] == 4


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"search": "N2"}, ["n2"]),
        ({"limit": "1"}, ["n2"]),
    ],
)
def test_the_list_is_filtered(api: Api, query: dict[str, str], names: list[str]) -> None:
    store([node_manifest(is_cordoned=True), node_manifest("n2", product=L40S)])

    assert [one["name"] for one in api.get(NODES, **query).data] == names


@pytest.mark.parametrize("path", ["n9", "n9/cordon", "n9/uncordon"])
def test_an_unknown_node_is_not_found(api: Api, cluster: FakeCluster, path: str) -> None:
    is_read = path == "n9"
    answer = (
        api.get(f"{NODES}/{path}")
        if is_read
        else api.post(f"{NODES}/{path}", {"operationID": "c"})
    )

    assert (answer.status, answer.code) == (404, "not_found")
    assert not Operation.objects.exists()


def test_a_cordon_and_an_uncordon_are_operations(api: Api, cluster: FakeCluster) -> None:
    cluster.put(NODE, node_manifest())
    store([node_manifest()])

    answer = api.post(f"{NODES}/n1/cordon", {"operationID": "c1"})
    assert (answer.status, answer.data["kind"]) == (202, "node.cordon")
    assert answer.data["object"]["href"] == f"{NODES}/n1"
    assert ran("c1").phase == "Succeeded"
    live = cluster.get(NODE, "n1")
    assert live is not None
    assert live["spec"]["unschedulable"] is True

    assert api.post(f"{NODES}/n1/cordon", {"operationID": "c1"}).status == 200
    assert api.post(f"{NODES}/n1/uncordon", {"operationID": "c1"}).code == "operation_conflict"
    api.post(f"{NODES}/n1/uncordon", {"operationID": "c2"})
    assert ran("c2").phase == "Succeeded"
    live = cluster.get(NODE, "n1")
    assert live is not None
    assert "unschedulable" not in live["spec"]
    assert api.get(f"{JOBS}/c2").data["phase"] == "Succeeded"


def test_a_late_cordon_does_not_undo_a_newer_uncordon(api: Api, cluster: FakeCluster) -> None:
    cluster.put(NODE, node_manifest())
    store([node_manifest()])
    for number, action in enumerate(("cordon", "uncordon"), start=1):
        api.post(f"{NODES}/n1/{action}", {"operationID": f"c{number}"})
    newer = Operation.objects.get(operation_id="c2")
    applied = {"annotations": {APPLIED_OPERATION_ANNOTATION: str(newer.pk)}}
    cluster.merge_patch(NODE, "n1", {"metadata": applied})

    assert ran("c1").phase == "Succeeded"

    live = cluster.get(NODE, "n1")
    assert live is not None
    assert "unschedulable" not in live["spec"]


def test_a_node_that_changed_after_it_was_read_is_read_again(
    api: Api, cluster: FakeCluster
) -> None:
    cluster.put(NODE, node_manifest())
    store([node_manifest()])
    api.post(f"{NODES}/n1/cordon", {"operationID": "c1"})
    cluster.fail("patch", NODE, ClusterConflict("changed"))

    assert ran("c1").phase == "Pending"
    Operation.objects.update(due_at="2026-01-31T12:00:00Z")
    assert ran("c1").phase == "Succeeded"


def test_a_node_that_was_deleted_meanwhile_fails_the_operation(
    api: Api, cluster: FakeCluster
) -> None:
    store([node_manifest()])
    api.post(f"{NODES}/n1/cordon", {"operationID": "c1"})

    failed = ran("c1")

    assert (failed.phase, failed.error_code) == ("Failed", "not_found")


def test_a_deleted_node_with_pods_cannot_be_cordoned(api: Api, cluster: FakeCluster) -> None:
    store([], [gpu_pod()])

    assert api.get(f"{NODES}/n1").data["exists"] is False
    assert api.post(f"{NODES}/n1/cordon", {"operationID": "c1"}).status == 404


@pytest.mark.parametrize(
    "body", [{}, {"operationID": ""}, {"operationID": "c", "force": True}, [], {"operationID": 3}]
)
def test_a_bad_body_is_rejected(api: Api, cluster: FakeCluster, body: Any) -> None:
    store([node_manifest()])

    assert api.post(f"{NODES}/n1/cordon", body).status == 400
    assert not Operation.objects.exists()
