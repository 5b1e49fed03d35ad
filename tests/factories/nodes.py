"""Nodes, and the pods that hold their GPUs, as the API server returns them. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.ownership import POOL_UID_LABEL, UNIT_UID_LABEL
from gpuplatform.workloads.holders import NodeRecord, holder_of, node_records
from gpuplatform.workloads.labels import SPEC_LABEL
from gpuplatform.workloads.nodes import NodeState
from gpuplatform.workloads.placement import PRODUCT_LABEL
from gpuplatform.workloads.resources import GPU_RESOURCE

H100 = "NVIDIA-H100-80GB-HBM3"
L40S = "NVIDIA-L40S"
SLICE = "nvidia.com/mig-1g.10gb"


def node_manifest(
    name: str = "n1",
    gpus: object = 8,
    *,
    product: str = H100,
    capacity: object = None,
    is_ready: bool = True,
    is_cordoned: bool = False,
    taints: Sequence[Mapping[str, str]] = (),
    pressures: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    **resources: str,
) -> Manifest:
    """Return a ready node; `resources` are further allocatable ones, such as `slices`."""
    further = {SLICE: resources["slices"]} if "slices" in resources else {}
    sizes = {"cpu": "64", "memory": "512Gi", **further}
    conditions = {"Ready": is_ready, **dict.fromkeys(pressures, True)}
    found = {PRODUCT_LABEL: product} if product else {}
    return {
        "metadata": {"name": name, "labels": {**found, **(labels or {})}},
        "spec": {
            **({"unschedulable": True} if is_cordoned else {}),
            **({"taints": [dict(taint) for taint in taints]} if taints else {}),
        },
        "status": {
            "capacity": {**sizes, GPU_RESOURCE: str(gpus if capacity is None else capacity)},
            "allocatable": {**sizes, GPU_RESOURCE: str(gpus)},
            "conditions": [
                {"type": type_, "status": "True" if is_true else "False"}
                for type_, is_true in conditions.items()
            ],
        },
    }


def gpu_pod(
    name: str = "p1",
    node: str = "n1",
    gpus: object = 1,
    *,
    unit: str = "",
    pool: str = "",
    resource: str = GPU_RESOURCE,
    spec_name: str = "g1.1",
    **status: Any,
) -> Manifest:
    """Return a running pod of a unit or a pool with this UID, or of another program."""
    labels = {UNIT_UID_LABEL: unit, POOL_UID_LABEL: pool, SPEC_LABEL: spec_name}
    is_ours = bool(unit or pool)
    limits = {"cpu": "4", resource: str(gpus)}
    return {
        "metadata": {
            "uid": f"uid-of-{name}",
            "namespace": "default",
            "name": name,
            "labels": {key: value for key, value in labels.items() if value and is_ours},
        },
        "spec": {
            **({"nodeName": node} if node else {}),
            "containers": [{"name": "main", "resources": {"limits": limits}}],
        },
        "status": {"phase": "Running", **status},
    }


def records(nodes: Sequence[Manifest], pods: Sequence[Manifest] = ()) -> dict[str, NodeRecord]:
    """Return the records of the nodes with these pods."""
    placed = [one for pod in pods if (one := holder_of(pod))]
    return node_records(map(NodeState.of, nodes), placed)


def record(node: Manifest, *pods: Manifest) -> NodeRecord:
    """Return the record of one node."""
    return records([node], pods)[node["metadata"]["name"]]
