"""Rows of nodes, as the controller writes them."""

from collections.abc import Sequence
from typing import Any

from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.resources import GPU_RESOURCE
from inventory.models import Node, StockPool
from inventory.services.nodes import record_columns
from tests.factories.nodes import H100, gpu_pod, node_manifest, record
from units.models import GpuUnit


def node_row(
    name: str = "gpu-node-1",
    gpus: int = 8,
    pods: Sequence[Manifest] = (),
    *,
    product: str = H100,
    **changes: Any,
) -> Node:
    """Insert a node with `gpus` allocatable GPUs and its pods. `changes` replace columns."""
    for pod in pods:
        pod["spec"]["nodeName"] = name
    columns = record_columns(record(node_manifest(name, gpus, product=product), *pods))
    return Node.objects.create(name=name, **{**columns, **changes})


def pod_of(
    owner: GpuUnit | StockPool | None,
    gpus: int = 1,
    *,
    resource: str = GPU_RESOURCE,
    name: str = "train-0",
) -> Manifest:
    """Return the pod of a unit or a stock pool, or of another program in the namespace `batch`."""
    if owner is None:
        pod = gpu_pod(name, gpus=gpus, resource=resource)
        pod["metadata"]["namespace"] = "batch"
        return pod
    pod = gpu_pod(
        f"{owner.name}-7d9c",
        gpus=gpus,
        unit=owner.uid if isinstance(owner, GpuUnit) else "",
        pool="" if isinstance(owner, GpuUnit) else owner.uid,
        resource=resource,
        spec_name=owner.spec_name,
    )
    pod["metadata"]["namespace"] = owner.namespace
    return pod
