"""The objects of a stock pool: its Deployment with the pods, and its Service.

Built field by field; a caller's dict is never merged in. Pure. Reviewed as data in `tests/golden`.
"""

from gpuplatform.kube.kinds import DEPLOYMENT, SERVICE, Manifest
from gpuplatform.planning.ownership import (
    MANAGED_BY_LABEL,
    MANAGER,
    POOL_LABEL,
    POOL_UID_LABEL,
    controller_reference,
)
from gpuplatform.workloads.labels import pod_labels, tenant_label
from gpuplatform.workloads.pods import (
    PROGRESS_DEADLINE_SECONDS,
    Size,
    Workload,
    pod_spec,
    service_ports,
)
from gpuplatform.workloads.releases import template_annotations, template_hash
from inventory.core.names import deployment_name, service_name
from inventory.core.spec import StockPoolSpec
from inventory.core.view import PoolView


def spec_hash(spec: StockPoolSpec) -> str:
    """Return a fingerprint of the part of the spec that the pod template depends on."""
    return template_hash({k: v for k, v in spec.normalised().items() if k != "replicas"})


def deployment(pool: PoolView) -> Manifest:
    """Return the Deployment of `pool`.

    It replaces pods by `Recreate`: a rolling update would need a second GPU.
    """
    metadata = _metadata(pool, deployment_name(pool.name))
    metadata["annotations"] = template_annotations(spec_hash(pool.spec))
    return {
        "apiVersion": DEPLOYMENT.api_version,
        "kind": DEPLOYMENT.kind,
        "metadata": metadata,
        "spec": {
            "replicas": pool.spec.replicas,
            "strategy": {"type": "Recreate"},
            "progressDeadlineSeconds": PROGRESS_DEADLINE_SECONDS,
            "selector": {"matchLabels": {POOL_LABEL: pool.name}},
            "template": {
                "metadata": {"labels": _labels(pool)},
                "spec": pod_spec(_workload(pool)),
            },
        },
    }


def service(pool: PoolView) -> Manifest:
    """Return the ClusterIP Service in front of the pool's pods, one port for each of theirs."""
    return {
        "apiVersion": SERVICE.api_version,
        "kind": SERVICE.kind,
        "metadata": _metadata(pool, service_name(pool.name)),
        "spec": {
            "type": "ClusterIP",
            "selector": {POOL_LABEL: pool.name},
            "ports": service_ports(pool.template.ports),
        },
    }


def _metadata(pool: PoolView, name: str) -> Manifest:
    return {
        "name": name,
        "namespace": pool.namespace,
        "labels": {**_labels(pool), **tenant_label(pool.annotations)},
        "ownerReferences": [controller_reference(pool)],
    }


def _labels(pool: PoolView) -> dict[str, str]:
    """Return the labels of every object of the pool.

    They have the UID, so that pods of an earlier pool of that name never match the template and
    are not adopted by its Deployment.
    """
    return {
        "app.kubernetes.io/name": "stock-pool",
        MANAGED_BY_LABEL: MANAGER,
        POOL_LABEL: pool.name,
        POOL_UID_LABEL: pool.uid,
        **pod_labels(pool.spec.spec_name),
    }


def _workload(pool: PoolView) -> Workload:
    spec, template = pool.spec, pool.template
    return Workload(
        image=spec.image,
        template=template,
        environment={
            "SPEC_NAME": spec.spec_name,
            "POOL_NAME": pool.name,
            "GPU_COUNT": str(spec.gpu),
            "MEMORY_LIMIT": spec.memory or "",
        },
        size=Size(cpu=None, memory=spec.memory, gpu=spec.gpu),
        is_reservation=not template.command and not template.args,
    )
