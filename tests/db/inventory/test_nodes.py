"""The mirror of the nodes: only changed rows are written, and never with older values."""

from collections.abc import Mapping

import pytest
from pytest_django import DjangoAssertNumQueries

from gpuplatform.errors import NotFound
from gpuplatform.kube.kinds import Manifest
from gpuplatform.reconciliation.models import ClusterState
from gpuplatform.workloads.holders import NodeRecord
from inventory.models import Node
from inventory.selectors import node_get, node_records_among, node_records_known
from inventory.services.nodes import nodes_update
from tests.factories.nodes import gpu_pod, node_manifest, records

pytestmark = pytest.mark.django_db

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def store(
    nodes: list[Manifest], pods: list[Manifest] | None = None, version: int = 10
) -> Mapping[str, object]:
    """Record these nodes as the complete list."""
    return nodes_update(records(nodes, pods or []), version=version, is_complete=True)


def test_a_row_has_all_values_of_its_record() -> None:
    nodes = [
        node_manifest(is_cordoned=True, taints=[TAINT], pressures=["DiskPressure"], slices="7"),
        node_manifest("n2", product=""),
    ]
    pods = [gpu_pod("a", unit="u"), gpu_pod("b", pool="p"), gpu_pod("c", "gone")]

    store(nodes, pods)

    assert node_records_known() == records(nodes, pods)
    assert node_records_among(["n2"]) == {"n2": records(nodes)["n2"]}


def test_a_node_can_be_read_only_if_its_pods_hold_too_much() -> None:
    pods = [gpu_pod(f"a{number}", "n2", unit="u") for number in range(9)]
    nodes = [node_manifest(), node_manifest("n2", 8)]
    store(nodes, pods)

    found = node_records_among([], if_short=["n1", "n2"])

    assert found == {"n2": records(nodes, pods)["n2"]}
    assert node_records_among(["n1"], if_short=["n2"]) == records(nodes, pods)
    assert node_records_among([]) == {}


def test_unchanged_rows_are_not_written(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    nodes, pods = [node_manifest(), node_manifest("n2")], [gpu_pod("a", unit="u")]
    assert store(nodes, pods).keys() == {"n1", "n2"}

    with django_assert_num_queries(1):
        assert store(nodes, pods, version=20) == {}
    assert store(nodes, [*pods, gpu_pod("b", "n2")], version=30).keys() == {"n2"}
    assert set(Node.objects.values_list("name", "resource_version")) == {("n1", 10), ("n2", 30)}


def test_an_older_state_changes_nothing() -> None:
    store([node_manifest(is_cordoned=True)], version=20)

    assert store([node_manifest()], version=19) == {}
    assert store([], version=19) == {}
    assert not node_get("n1").is_schedulable
    assert store([node_manifest()], version=20).keys() == {"n1"}


def test_a_deleted_node_is_kept_while_pods_are_bound_to_it() -> None:
    store([node_manifest()], [gpu_pod()])
    row_id = node_get("n1").pk

    store([], [gpu_pod()], version=20)
    assert (node_get("n1").pk, node_get("n1").is_present) == (row_id, False)
    store([], version=30)

    with pytest.raises(NotFound):
        node_get("n1")


def test_changes_of_some_nodes_leave_the_others() -> None:
    store([node_manifest(), node_manifest("n2")])
    some: dict[str, NodeRecord | None] = {"n1": None}

    assert nodes_update(some, version=20, is_complete=False).keys() == {"n1"}

    assert list(Node.objects.values_list("name", flat=True)) == ["n2"]


def test_nodes_that_were_never_observed_are_unknown() -> None:
    assert node_records_known() is None

    ClusterState.objects.update_or_create(id=1, defaults={"seen_at": "2026-01-31T12:00:00Z"})

    assert node_records_known() == {}


def test_a_node_that_returns_with_another_label_has_another_product() -> None:
    store([node_manifest(product="A")])
    store([], version=20)
    store([node_manifest(product="B")], version=30)

    assert node_get("n1").product == "B"


def test_values_that_postgresql_cannot_store_are_replaced() -> None:
    node = node_manifest()
    node["metadata"]["labels"]["odd"] = "a\x00b"

    store([node])

    assert node_get("n1").labels["odd"] == "a\ufffdb"
    assert store([node], version=20) == {}
