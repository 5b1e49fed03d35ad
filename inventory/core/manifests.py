"""Builds the Deployment and the Service of a stock pool.

Every field is set explicitly; no dict of a caller is merged in. The golden files in `tests/golden`
show the results. Pure.
"""

from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.ownership import MANAGED_BY_LABEL, MANAGER, POOL_LABEL, POOL_UID_LABEL
from gpuplatform.workloads.labels import pod_labels, tenant_label
from gpuplatform.workloads.objects import OwnedObjects
from gpuplatform.workloads.pod_settings import PodSettings
from gpuplatform.workloads.pods import Size, Workload, pod_spec
from gpuplatform.workloads.releases import template_hash
from inventory.core.names import object_name
from inventory.core.spec import StockPoolSpec
from inventory.core.view import PoolView


def spec_hash(spec: StockPoolSpec) -> str:
    """Return a hash of the spec fields that the pod template depends on."""
    return template_hash({k: v for k, v in spec.normalised().items() if k != "replicas"})


def deployment(pool: PoolView, settings: PodSettings) -> Manifest:
    """Return the Deployment of `pool`."""
    return _owned(pool).deployment(
        pod_spec(_workload(pool, settings)),
        pod_labels=_labels(pool),
        pod_annotations=pool.template.annotations,
        replicas=pool.spec.replicas,
        spec_hash=spec_hash(pool.spec),
        settings=settings,
    )


def service(pool: PoolView) -> Manifest:
    """Return the Service of `pool`."""
    return _owned(pool).service(pool.template.ports)


def _owned(pool: PoolView) -> OwnedObjects:
    labels = {**_labels(pool), **tenant_label(pool.annotations)}
    return OwnedObjects(pool, object_name(pool.name), labels, {POOL_LABEL: pool.name})


def _labels(pool: PoolView) -> dict[str, str]:
    """Return the labels that all objects of the stock pool have.

    They include its UID, so that its Deployment never adopts pods of a deleted stock pool with the
    same name.
    """
    return {
        "app.kubernetes.io/name": "stock-pool",
        MANAGED_BY_LABEL: MANAGER,
        POOL_LABEL: pool.name,
        POOL_UID_LABEL: pool.uid,
        **pod_labels(pool.spec.spec_name),
    }


def _workload(pool: PoolView, settings: PodSettings) -> Workload:
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
        size=Size(None, spec.memory, spec.gpu, spec.resource_name, spec.resources),
        is_reservation=not template.command and not template.args,
        settings=settings,
        placement=spec.placement,
    )
