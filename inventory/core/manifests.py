"""What a stock pool looks like in the cluster: its Deployment, its pods, its Service.

Built field by field; a caller's dict is never merged in. Pure. Reviewed as data in `tests/golden`.
"""

from gpuplatform.kube.kinds import DEPLOYMENT, SERVICE, Manifest
from gpuplatform.reconciliation.ownership import (
    MANAGED_BY_LABEL,
    MANAGER,
    POOL_LABEL,
    controller_reference,
)
from inventory.core.names import deployment_name, service_name
from inventory.core.pods import PROGRESS_DEADLINE_SECONDS, Size, Workload, pod_spec, service_ports
from inventory.core.releases import template_annotations, template_hash
from inventory.core.spec import PodTemplate, StockPoolSpec


def spec_hash(spec: StockPoolSpec) -> str:
    """Return a fingerprint of what of the spec reaches the pod template."""
    return template_hash({k: v for k, v in spec.normalised().items() if k != "replicas"})


def deployment(pool: Manifest, spec: StockPoolSpec) -> Manifest:
    """Return the Deployment of `pool`.

    It replaces pods by `Recreate`: a rolling update would need a second GPU.
    """
    name = pool["metadata"]["name"]
    metadata = _metadata(pool, deployment_name(name))
    metadata["annotations"] = template_annotations(spec_hash(spec))
    return {
        "apiVersion": DEPLOYMENT.api_version,
        "kind": DEPLOYMENT.kind,
        "metadata": metadata,
        "spec": {
            "replicas": spec.replicas,
            "strategy": {"type": "Recreate"},
            "progressDeadlineSeconds": PROGRESS_DEADLINE_SECONDS,
            "selector": {"matchLabels": {POOL_LABEL: name}},
            "template": {
                "metadata": {"labels": _labels(name)},
                "spec": pod_spec(_workload(name, spec)),
            },
        },
    }


def service(pool: Manifest, template: PodTemplate) -> Manifest:
    """Return the ClusterIP Service in front of the pool's pods, one port for each of theirs."""
    name = pool["metadata"]["name"]
    return {
        "apiVersion": SERVICE.api_version,
        "kind": SERVICE.kind,
        "metadata": _metadata(pool, service_name(name)),
        "spec": {
            "type": "ClusterIP",
            "selector": {POOL_LABEL: name},
            "ports": service_ports(template.ports),
        },
    }


def _metadata(pool: Manifest, name: str) -> Manifest:
    return {
        "name": name,
        "namespace": pool["metadata"]["namespace"],
        "labels": _labels(pool["metadata"]["name"]),
        "ownerReferences": [controller_reference(pool)],
    }


def _labels(pool_name: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "stock-pool",
        MANAGED_BY_LABEL: MANAGER,
        POOL_LABEL: pool_name,
    }


def _workload(pool_name: str, spec: StockPoolSpec) -> Workload:
    template = spec.template or PodTemplate()
    return Workload(
        image=spec.image,
        template=template,
        environment={
            "SPEC_NAME": spec.spec_name,
            "POOL_NAME": pool_name,
            "GPU_COUNT": str(spec.gpu),
            "MEMORY_LIMIT": spec.memory or "",
        },
        size=Size(cpu=None, memory=spec.memory, gpu=spec.gpu),
        is_reservation=not template.command and not template.args,
    )
