"""What a stock pool looks like in the cluster: its Deployment, its pods, its Service.

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
from gpuplatform.workloads.pods import (
    PROGRESS_DEADLINE_SECONDS,
    Size,
    Workload,
    pod_spec,
    service_ports,
)
from gpuplatform.workloads.releases import template_annotations, template_hash
from gpuplatform.workloads.template import PodTemplate
from inventory.core.names import deployment_name, service_name
from inventory.core.spec import StockPoolSpec


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
                "metadata": {"labels": _labels(pool)},
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
        "labels": _labels(pool),
        "ownerReferences": [controller_reference(pool)],
    }


def _labels(pool: Manifest) -> dict[str, str]:
    """Return what every object of the pool bears.

    With the UID in them, pods that a pool of that name left are never those of this template
    and so are not taken over by its Deployment either.
    """
    return {
        "app.kubernetes.io/name": "stock-pool",
        MANAGED_BY_LABEL: MANAGER,
        POOL_LABEL: pool["metadata"]["name"],
        POOL_UID_LABEL: pool["metadata"]["uid"],
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
