"""The objects that the platform requires in a cluster. Pure.

The objects are namespaces, priority classes and custom resource definitions.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from gpuplatform.formats.namespaces import POOL_NAMESPACE, STOCK_NAMESPACE
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

DEFAULT_TENANT_NAMESPACE = "runtime-instance"

CRDS: tuple[dict[str, Any], ...] = (STOCK_POOL_CRD, GPU_UNIT_CRD)
"""The CustomResourceDefinitions of the platform."""

POD_SECURITY = "pod-security.kubernetes.io"
WORKLOAD_LEVEL = "baseline"
"""The enforced level. Stricter levels only warn, because images of users may run as root."""


_PRIORITY_CLASSES: Final = (
    (
        STOCK_PRIORITY_CLASS,
        100,
        "Never",
        "Priority of GPU stock, above the default priority of pods. Never preempts.",
    ),
    (
        UNIT_PRIORITY_CLASS,
        1000,
        "PreemptLowerPriority",
        "Priority of GPU units of users. Preempts GPU stock.",
    ),
)


def file_name(crd: dict[str, Any]) -> str:
    """Return the file name of a definition, `<group>_<plural>.yaml`."""
    spec = crd["spec"]
    return f"{spec['group']}_{spec['names']['plural']}.yaml"


def manifests(
    system_namespace: str, pool_namespaces: Iterable[str] = ()
) -> Iterator[tuple[ResourceKind, Manifest]]:
    """Yield all objects with their kinds, in the order in which they must be applied."""
    yield NAMESPACE, named_object(NAMESPACE, system_namespace)
    for name in dict.fromkeys(
        (STOCK_NAMESPACE, DEFAULT_TENANT_NAMESPACE, POOL_NAMESPACE, *pool_namespaces)
    ):
        yield NAMESPACE, _workload_namespace(name)
    for name, value, policy, description in _PRIORITY_CLASSES:
        fields = {"value": value, "preemptionPolicy": policy, "description": description}
        yield PRIORITY_CLASS, {**named_object(PRIORITY_CLASS, name), **fields}
    for crd in CRDS:
        yield CUSTOM_RESOURCE_DEFINITION, crd


def _workload_namespace(name: str) -> Manifest:
    manifest = named_object(NAMESPACE, name)
    manifest["metadata"]["labels"] |= pod_security_labels()
    return manifest


def pod_security_labels() -> dict[str, str]:
    """Return the labels of a namespace with pools or units that restrict what its pods may do."""
    return {
        f"{POD_SECURITY}/enforce": WORKLOAD_LEVEL,
        f"{POD_SECURITY}/audit": "restricted",
        f"{POD_SECURITY}/warn": "restricted",
    }


def named_object(kind: ResourceKind, name: str, namespace: str | None = None) -> Manifest:
    """Return a manifest with kind, name, namespace and the label of the platform."""
    metadata = {"name": name, "labels": {MANAGED_BY_LABEL: MANAGER}}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {**metadata, "namespace": namespace} if namespace else metadata,
    }
