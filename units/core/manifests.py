"""The objects of a GPU unit: the resource, its Deployment with the pod, and its Service.

Built field by field; a caller's dict is never merged in. Pure. Reviewed as data in `tests/golden`.
"""

from collections.abc import Mapping
from typing import Any, Final

from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, SERVICE, Manifest
from gpuplatform.planning.ownership import (
    MANAGED_BY_LABEL,
    MANAGER,
    UNIT_LABEL,
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
from gpuplatform.workloads.template import PodTemplate
from units.core.names import UNIT_UID_LABEL, deployment_name, service_name
from units.core.spec import DEFAULT_SCHEME, GPUUnitSpec
from units.core.view import UnitView
from units.core.workers import worker_pod
from units.phases import UnitRole, role_of

_NOT_IN_THE_POD: Final = frozenset({"access", "suspend"})


def resource(
    namespace: str, name: str, spec: GPUUnitSpec, annotations: Mapping[str, str]
) -> Manifest:
    """Return the `GPUUnit` itself, as an operation creates it."""
    return {
        "apiVersion": GPU_UNIT.api_version,
        "kind": GPU_UNIT.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": _labels(name, spec) | _tenant_label(namespace, annotations),
            "annotations": dict(annotations),
        },
        "spec": spec.normalised(),
    }


def spec_hash(spec: GPUUnitSpec) -> str:
    """Return a fingerprint of the part of the spec that the pod template depends on."""
    payload = spec.normalised()
    return template_hash({k: v for k, v in payload.items() if k not in _NOT_IN_THE_POD})


def deployment(unit: UnitView, *, replicas: int, priority: str) -> Manifest:
    """Return the Deployment of `unit`, with `replicas` 0 or 1 and the pods' priority class.

    It replaces pods by `Recreate`: a rolling update would need a second GPU.
    """
    return {
        "apiVersion": DEPLOYMENT.api_version,
        "kind": DEPLOYMENT.kind,
        "metadata": {
            **_metadata(unit, deployment_name(unit.name)),
            "annotations": template_annotations(spec_hash(unit.spec)),
        },
        "spec": {
            "replicas": replicas,
            "strategy": {"type": "Recreate"},
            "progressDeadlineSeconds": PROGRESS_DEADLINE_SECONDS,
            "selector": {"matchLabels": {UNIT_LABEL: unit.name}},
            "template": {
                "metadata": {
                    "labels": {**_labels(unit.name, unit.spec), UNIT_UID_LABEL: unit.uid}
                },
                "spec": _pod(unit, priority),
            },
        },
    }


def service(unit: UnitView) -> Manifest:
    """Return the ClusterIP Service in front of the unit's pod, one port for each of its ports."""
    return {
        "apiVersion": SERVICE.api_version,
        "kind": SERVICE.kind,
        "metadata": _metadata(unit, service_name(unit.name)),
        "spec": {
            "type": "ClusterIP",
            "selector": {UNIT_LABEL: unit.name},
            "ports": service_ports(unit.spec.ports),
        },
    }


def access_url(unit: UnitView) -> str | None:
    """Return the URL of the unit inside the cluster; None without a port."""
    port, access = unit.spec.primary_port, unit.spec.access
    if port is None:
        return None
    scheme = access.scheme if access else DEFAULT_SCHEME
    host = f"{service_name(unit.name)}.{unit.namespace}.svc.cluster.local"
    return f"{scheme}://{host}:{port.port}"


def _pod(unit: UnitView, priority: str) -> Manifest:
    pod = pod_spec(_workload(unit, priority))
    if unit.spec.serverless is None:
        return pod
    return worker_pod(pod, unit.spec.serverless, unit=unit.name, token=unit.uid)


def _metadata(unit: UnitView, name: str) -> Manifest:
    return {
        "name": name,
        "namespace": unit.namespace,
        "labels": _labels(unit.name, unit.spec) | _tenant_label(unit.namespace, unit.annotations),
        "ownerReferences": [controller_reference(unit)],
    }


def _tenant_label(namespace: str, annotations: Mapping[str, Any]) -> dict[str, str]:
    """Return the label of an active unit's tenant; stock units have no tenant."""
    return tenant_label(annotations) if role_of(namespace) == UnitRole.ACTIVE else {}


def _labels(unit_name: str, spec: GPUUnitSpec) -> dict[str, str]:
    function_id = spec.serverless.function_id if spec.serverless else None
    return {
        "app.kubernetes.io/name": "gpu-unit",
        MANAGED_BY_LABEL: MANAGER,
        UNIT_LABEL: unit_name,
        **pod_labels(spec.spec_name, function_id),
    }


def _workload(unit: UnitView, priority: str) -> Workload:
    spec = unit.spec
    template = spec.template or PodTemplate()
    return Workload(
        image=spec.image,
        template=template,
        environment={
            "SPEC_NAME": spec.spec_name,
            "UNIT_NAME": unit.name,
            "GPU_COUNT": str(spec.gpu),
            "MEMORY_LIMIT": spec.memory or "",
        },
        size=Size(cpu=spec.cpu, memory=spec.memory, gpu=spec.gpu),
        # A user's image runs its own program when the template names none.
        is_reservation=not (spec.image or template.command or template.args),
        priority_class=priority,
        placement=spec.placement,
        probes_port=not unit.is_stock,
    )
