"""The objects that the platform requires in a cluster. Pure.

The objects are namespaces, priority classes and custom resource definitions.
"""

from collections.abc import Iterator
from typing import Any

from gpuplatform.kube.kinds import (
    CUSTOM_RESOURCE_DEFINITION,
    NAMESPACE,
    PRIORITY_CLASS,
    Manifest,
    ResourceKind,
)
from gpuplatform.planning.ownership import MANAGED_BY_LABEL, MANAGER
from gpuplatform.workloads.pods import STOCK_PRIORITY_CLASS, UNIT_PRIORITY_CLASS
from inventory.core.crd import STOCK_POOL_CRD
from units.core.crd import GPU_UNIT_CRD
from units.phases import STOCK_NAMESPACE

DEFAULT_TENANT_NAMESPACE = "runtime-instance"

CRDS: tuple[dict[str, Any], ...] = (STOCK_POOL_CRD, GPU_UNIT_CRD)
"""The CustomResourceDefinitions of the platform."""

POD_SECURITY = "pod-security.kubernetes.io"
WORKLOAD_LEVEL = "baseline"
"""The enforced level. Stricter levels only warn, because images of users may run as root."""


def file_name(crd: dict[str, Any]) -> str:
    """Return the file name of a definition, `<group>_<plural>.yaml`."""
    spec = crd["spec"]
    return f"{spec['group']}_{spec['names']['plural']}.yaml"


def manifests(system_namespace: str) -> Iterator[tuple[ResourceKind, Manifest]]:
    """Yield all objects with their kinds, in the order in which they must be applied."""
    yield NAMESPACE, _object(NAMESPACE, system_namespace)
    for name in (STOCK_NAMESPACE, DEFAULT_TENANT_NAMESPACE):
        yield NAMESPACE, _workload_namespace(name)
    yield (
        PRIORITY_CLASS,
        {
            **_object(PRIORITY_CLASS, STOCK_PRIORITY_CLASS),
            "value": 100,
            "preemptionPolicy": "Never",
            "description": "Priority of GPU stock, above the default priority of pods. Never"
            " preempts.",
        },
    )
    yield (
        PRIORITY_CLASS,
        {
            **_object(PRIORITY_CLASS, UNIT_PRIORITY_CLASS),
            "value": 1000,
            "preemptionPolicy": "PreemptLowerPriority",
            "description": "Priority of GPU units of users. Preempts GPU stock.",
        },
    )
    for crd in CRDS:
        yield CUSTOM_RESOURCE_DEFINITION, crd


def _workload_namespace(name: str) -> Manifest:
    manifest = _object(NAMESPACE, name)
    manifest["metadata"]["labels"] |= {
        f"{POD_SECURITY}/enforce": WORKLOAD_LEVEL,
        f"{POD_SECURITY}/audit": "restricted",
        f"{POD_SECURITY}/warn": "restricted",
    }
    return manifest


def _object(kind: ResourceKind, name: str) -> Manifest:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "labels": {MANAGED_BY_LABEL: MANAGER}},
    }
