"""What pods prove about the use of GPUs."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpuplatform.planning.ownership import UNIT_UID_LABEL
from gpuplatform.usage.core.sights import SILENCE, sight_of, sights_of
from gpuplatform.workloads.nodes import NodeState

NOW = datetime(2026, 12, 1, 10, tzinfo=UTC)
BOUND, ENDED = "2026-12-01T09:00:00Z", "2026-12-01T09:30:00Z"


def pod(**changes: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "n", "uid": "p1", "labels": {UNIT_UID_LABEL: "u1"}}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": BOUND}
    return {
        "metadata": {**metadata, **changes.pop("metadata", {})},
        "spec": {"nodeName": "node-1", "containers": [{"name": "main"}]},
        "status": {"phase": "Running", "conditions": [scheduled], **changes},
    }


def terminated(at: str = ENDED) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "main", "state": {"terminated": {"finishedAt": at}}}]}


def test_a_running_pod_alone_proves_that_it_was_bound() -> None:
    found = sight_of(pod())

    assert found is not None
    assert (found.unit_uid, found.at, found.is_end) == ("u1", found.bound_at, False)


@pytest.mark.parametrize(
    "ended",
    [
        pod(phase="Succeeded", **terminated()),
        pod(phase="Failed", **terminated()),
        pod(metadata={"deletionTimestamp": "2026-12-01T09:40:00Z"}, **terminated()),
    ],
)
def test_a_pod_whose_containers_ended_proves_its_end(ended: dict[str, Any]) -> None:
    found = sight_of(ended)

    assert found is not None
    assert (found.is_end, found.at) == (True, NOW - timedelta(minutes=30))


@pytest.mark.parametrize(
    "going",
    [
        pod(**terminated()),
        pod(metadata={"deletionTimestamp": "2026-12-01T09:40:00Z"}),
        pod(phase="Failed"),
        pod(phase="Failed", **terminated("never")),
    ],
)
def test_a_deletion_timestamp_or_a_restart_is_no_end(going: dict[str, Any]) -> None:
    found = sight_of(going)

    assert found is not None
    assert not found.is_end


@pytest.mark.parametrize(
    "odd", [pod(conditions=[]), pod(conditions="x"), pod(metadata={"labels": None})]
)
def test_a_pod_without_a_place_or_a_unit_proves_nothing(odd: dict[str, Any]) -> None:
    assert sight_of(odd) is None


def test_a_list_proves_less_than_the_time_for_which_a_node_can_be_silent() -> None:
    [found] = sights_of([pod()], {"node-1": NodeState("node-1")}, NOW)

    assert found.at == NOW - SILENCE


@pytest.mark.parametrize("nodes", [{}, {"node-1": NodeState("node-1", is_ready=False)}])
def test_a_pod_on_a_lost_node_is_not_seen(nodes: dict[str, NodeState]) -> None:
    [found] = sights_of([pod()], nodes, NOW)

    assert found.at == found.bound_at
