from collections import Counter

import pytest

from gpuplatform.dev.simulator.apiserver.controllers.placement import Node, explain, requests_of
from gpuplatform.dev.simulator.apiserver.controllers.rollout import (
    Bounds,
    Size,
    new_size,
    old_sizes,
)
from gpuplatform.dev.simulator.apiserver.objects import Manifest

NONE: list[Size] = []


def deployment(replicas: int, surge: int | str, unavailable: int | str) -> Manifest:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return {"spec": {"replicas": replicas, "strategy": strategy}}


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        pytest.param(4, "25%", "25%", (1, 1), id="percent of four"),
        pytest.param(1, "25%", "25%", (1, 0), id="surge is rounded up, unavailable down"),
        pytest.param(3, 2, 1, (2, 1), id="numbers"),
        pytest.param(2, "0%", "10%", (0, 1), id="never stuck at nothing"),
    ],
)
def test_bounds_of_a_rolling_update(
    replicas: int, surge: int | str, unavailable: int | str, expected: tuple[int, int]
) -> None:
    bounds = Bounds.of(deployment(replicas, surge, unavailable))

    assert (bounds.surge, bounds.unavailable) == expected


def test_a_first_rollout_has_all_replicas() -> None:
    assert new_size(Bounds(3, 1, 0), Size("new", 0, 0), NONE) == 3


def test_the_new_replica_set_grows_within_the_surge() -> None:
    assert new_size(Bounds(3, 1, 0), Size("new", 0, 0), [Size("old", 3, 3)]) == 1


def test_old_replica_sets_wait_for_available_new_replicas() -> None:
    bounds, old = Bounds(3, 1, 0), [Size("old", 3, 3)]

    assert old_sizes(bounds, Size("new", 1, 0), old) == {"old": 3}
    assert old_sizes(bounds, Size("new", 1, 1), old) == {"old": 2}


def test_unhealthy_old_replicas_are_removed_first() -> None:
    bounds, old = Bounds(3, 0, 1), [Size("broken", 2, 0), Size("good", 2, 2)]

    assert old_sizes(bounds, Size("new", 0, 0), old) == {"broken": 0, "good": 2}


def pod(gpus: str = "1", **spec: object) -> Manifest:
    limits = {"nvidia.com/gpu": gpus, "cpu": "500m"}
    return {"spec": {"containers": [{"resources": {"requests": limits}}], **spec}}


def node(gpus: str = "2", **spec: object) -> Node:
    status = {"allocatable": {"nvidia.com/gpu": gpus, "cpu": "8", "pods": "10"}}
    metadata = {"name": "n1", "labels": {"zone": "a"}}
    return Node.of({"metadata": metadata, "spec": spec, "status": status})


def obstacles(a_pod: Manifest, a_node: Node) -> list[str]:
    return a_node.obstacles(a_pod, requests_of(a_pod))


def test_a_pod_fits_a_node_with_free_resources() -> None:
    assert obstacles(pod(), node()) == []


def test_each_insufficient_resource_is_named() -> None:
    full = node(gpus="0")
    full.taken = Counter({"cpu": 8 * 10**9})

    assert obstacles(pod(), full) == ["Insufficient cpu", "Insufficient nvidia.com/gpu"]


def test_a_taint_needs_a_toleration() -> None:
    tainted = node(taints=[{"key": "gpu", "value": "h100", "effect": "NoSchedule"}])
    tolerant = pod(tolerations=[{"key": "gpu", "operator": "Exists"}])

    assert obstacles(pod(), tainted) == ["node(s) had untolerated taint(s) {gpu: h100}"]
    assert obstacles(tolerant, tainted) == []


def test_a_selector_or_affinity_must_match() -> None:
    desired = "node(s) didn't match Pod's node affinity/selector"
    expression = {"key": "zone", "operator": "NotIn", "values": ["a"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}

    assert obstacles(pod(nodeSelector={"zone": "b"}), node()) == [desired]
    assert obstacles(pod(affinity=affinity), node()) == [desired]
    assert obstacles(pod(nodeSelector={"zone": "a"}), node()) == []


def test_the_message_counts_nodes_by_reason() -> None:
    reasons = Counter({"Insufficient nvidia.com/gpu": 2, "Insufficient cpu": 1})

    assert explain(3, reasons) == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 Insufficient nvidia.com/gpu."
    )
    assert explain(0, Counter()) == "no nodes available to schedule pods"
