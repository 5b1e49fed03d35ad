"""The tracker of nodes: events change exactly the records of their nodes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplatform.kube.kinds import Manifest
from inventory.core.node_tracker import NodeTracker
from tests.factories.nodes import gpu_pod, node_manifest, records

OURS, OTHERS = "ours", "others"


def tracker(nodes: list[Manifest], pods: list[Manifest]) -> NodeTracker:
    found = NodeTracker((OURS, OTHERS))
    found.nodes_listed(nodes, 10)
    found.pods_listed(OURS, pods, 11)
    found.pods_listed(OTHERS, [], 12)
    return found


def settled(nodes: list[Manifest], pods: list[Manifest]) -> NodeTracker:
    found = tracker(nodes, pods)
    assert found.changes() is not None
    return found


def test_nothing_is_known_before_the_first_list_of_each_watch() -> None:
    found = NodeTracker((OURS, OTHERS))
    found.pod_event(OURS, "ADDED", gpu_pod(), 5)
    found.node_event("ADDED", node_manifest(), 5)
    assert found.changes() is None
    found.nodes_listed([node_manifest()], 10)
    assert found.changes() is None
    found.pods_listed(OURS, [], 11)
    assert found.changes() is None
    found.pods_listed(OTHERS, [], 12)

    changes = found.changes()

    assert changes is not None
    assert (changes.records, changes.version, changes.is_complete) == (
        records([node_manifest()]),
        12,
        True,
    )
    assert found.changes() is None


@pytest.mark.parametrize(
    "event",
    [
        ("MODIFIED", {**gpu_pod("a"), "status": {"phase": "Running", "podIP": "10.0.0.1"}}),
        ("ADDED", gpu_pod("without a GPU", gpus=0)),
        ("ADDED", gpu_pod("without a node", node="")),
        ("DELETED", gpu_pod("never seen", phase="Failed")),
    ],
)
def test_pods_that_change_no_number_change_no_record(event: tuple[str, Manifest]) -> None:
    found = settled([node_manifest()], [gpu_pod("a")])

    found.pod_event(OURS, *event, 20)
    heartbeat = node_manifest()
    heartbeat["status"]["images"] = [{"names": ["vllm:1"]}]
    found.node_event("MODIFIED", heartbeat, 21)

    assert found.changes() is None


def test_an_event_changes_only_its_node() -> None:
    nodes = [node_manifest(), node_manifest("n2")]
    found = settled(nodes, [gpu_pod("a")])

    found.pod_event(OTHERS, "ADDED", gpu_pod("b", "n2"), 20)
    changes = found.changes()

    assert changes is not None
    assert not changes.is_complete
    assert changes.records == {"n2": records(nodes, [gpu_pod("b", "n2")])["n2"]}

    found.pod_event(OTHERS, "DELETED", gpu_pod("b", "n2"), 22)
    changes = found.changes()
    assert changes is not None
    assert changes.records == {"n2": records(nodes)["n2"]}


def test_a_cordon_and_a_deletion_of_a_node_are_changes() -> None:
    found = settled([node_manifest()], [])

    found.node_event("MODIFIED", node_manifest(is_cordoned=True), 20)
    changes = found.changes()
    assert changes is not None
    [cordoned] = changes.records.values()
    assert cordoned is not None
    assert not cordoned.state.is_schedulable

    found.node_event("DELETED", node_manifest(), 21)
    changes = found.changes()
    assert changes is not None
    assert changes.records == {"n1": None}
    assert found.counts() == (0, 0)


def test_a_pod_on_a_deleted_node_keeps_its_record() -> None:
    found = settled([node_manifest()], [gpu_pod()])

    found.node_event("DELETED", node_manifest(), 21)
    changes = found.changes()

    assert changes is not None
    [left] = changes.records.values()
    assert left is not None
    assert (left.state.is_present, len(left.holders)) == (False, 1)


def test_a_recheck_returns_all_nodes() -> None:
    found = settled([node_manifest()], [])

    found.recheck()
    changes = found.changes()

    assert changes is not None
    assert changes.is_complete


EVENT = st.tuples(
    st.sampled_from(["node", OURS, OTHERS]),
    st.sampled_from(["ADDED", "MODIFIED", "DELETED"]),
    st.integers(0, 3),
    st.integers(0, 2),
    st.booleans(),
)


@given(st.lists(EVENT, max_size=30), st.integers(1, 5))
def test_the_changes_add_up_to_the_state(events: list[tuple[Any, ...]], every: int) -> None:
    """Applying all changes gives the records of the objects that exist."""
    found = tracker([], [])
    objects: dict[str, dict[str, Manifest]] = {"node": {}, "pod": {}}
    known: dict[str, Any] = {}

    for version, event in enumerate(events, start=20):
        kind, name, manifest = send(found, version, event)
        objects[kind].pop(name, None)
        if event[1] != "DELETED":
            objects[kind][name] = manifest
        if version % every == 0:
            apply(found, known)
    apply(found, known)

    assert known == records([*objects["node"].values()], [*objects["pod"].values()])


def send(found: NodeTracker, version: int, event: tuple[Any, ...]) -> tuple[str, str, Manifest]:
    source, type_, number, gpus, flag = event
    if source == "node":
        node = node_manifest(f"n{number}", gpus, is_cordoned=flag)
        found.node_event(type_, node, version)
        return "node", f"n{number}", node
    name = f"{source}-{number}"
    pod = gpu_pod(name, f"n{gpus}", gpus + 1, phase="Failed" if flag else "Running")
    found.pod_event(source, type_, pod, version)
    return "pod", name, pod


def apply(found: NodeTracker, known: dict[str, Any]) -> None:
    changes = found.changes()
    for name, record in (changes.records if changes else {}).items():
        known.pop(name, None)
        if record is not None:
            known[name] = record
