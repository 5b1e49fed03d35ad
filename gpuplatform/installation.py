"""What the platform needs in a cluster: namespaces, priority classes, resource definitions.

Pure lists of manifests, in the order in which they are applied.
"""

from collections.abc import Iterator

from gpuplatform.kube.kinds import (
    CUSTOM_RESOURCE_DEFINITION,
    NAMESPACE,
    PRIORITY_CLASS,
    Manifest,
    ResourceKind,
)
from gpuplatform.reconciliation.ownership import MANAGED_BY_LABEL, MANAGER
from inventory.core.crd import STOCK_POOL_CRD
from inventory.core.manifests import STOCK_PRIORITY_CLASS

STOCK_NAMESPACE = "runtime-stock"
DEFAULT_TENANT_NAMESPACE = "runtime-instance"
UNIT_PRIORITY_CLASS = "gpu-platform-unit"


def manifests(system_namespace: str) -> Iterator[tuple[ResourceKind, Manifest]]:
    """Yield every object with its kind, namespaces first."""
    for name in (system_namespace, STOCK_NAMESPACE, DEFAULT_TENANT_NAMESPACE):
        yield NAMESPACE, _object(NAMESPACE, name)
    yield (
        PRIORITY_CLASS,
        {
            **_object(PRIORITY_CLASS, STOCK_PRIORITY_CLASS),
            "value": 100,
            "preemptionPolicy": "Never",
            "description": "GPU capacity in stock: above ordinary workloads, evicting nobody.",
        },
    )
    yield (
        PRIORITY_CLASS,
        {
            **_object(PRIORITY_CLASS, UNIT_PRIORITY_CLASS),
            "value": 1000,
            "preemptionPolicy": "PreemptLowerPriority",
            "description": "Units that take over the GPU of a stock unit.",
        },
    )
    yield CUSTOM_RESOURCE_DEFINITION, STOCK_POOL_CRD


def _object(kind: ResourceKind, name: str) -> Manifest:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "labels": {MANAGED_BY_LABEL: MANAGER}},
    }
