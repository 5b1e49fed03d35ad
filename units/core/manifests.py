"""What a GPU unit looks like in the cluster: the resource, its Deployment, its Service.

Built field by field; a caller's dict is never merged in. Pure. Reviewed as data in `tests/golden`.
"""

from collections.abc import Mapping
from typing import Final

from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, SERVICE, Manifest
from gpuplatform.planning.ownership import (
    MANAGED_BY_LABEL,
    MANAGER,
    UNIT_LABEL,
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
from units.core.names import UNIT_UID_LABEL, deployment_name, service_name
from units.core.spec import DEFAULT_SCHEME, GPUUnitSpec
from units.core.workers import worker_pod
from units.phases import UnitRole, role_of

_NOT_IN_THE_POD: Final = frozenset({"access", "suspend"})


def resource(
    namespace: str, name: str, spec: GPUUnitSpec, annotations: Mapping[str, str]
) -> Manifest:
    """Return the `GPUUnit` itself, as an operation makes it."""
    return {
        "apiVersion": GPU_UNIT.api_version,
        "kind": GPU_UNIT.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": _labels(name),
            "annotations": dict(annotations),
        },
        "spec": spec.normalised(),
    }


def spec_hash(spec: GPUUnitSpec) -> str:
    """Return a fingerprint of what of the spec reaches the pod template."""
    payload = spec.normalised()
    return template_hash({k: v for k, v in payload.items() if k not in _NOT_IN_THE_POD})


def deployment(unit: Manifest, spec: GPUUnitSpec, *, replicas: int, priority: str) -> Manifest:
    """Return the Deployment of `unit`, with `replicas` 0 or 1 and the pods' priority class.

    It replaces pods by `Recreate`: a rolling update would need a second GPU.
    """
    metadata = unit["metadata"]
    name = metadata["name"]
    return {
        "apiVersion": DEPLOYMENT.api_version,
        "kind": DEPLOYMENT.kind,
        "metadata": {
            **_metadata(unit, deployment_name(name)),
            "annotations": template_annotations(spec_hash(spec)),
        },
        "spec": {
            "replicas": replicas,
            "strategy": {"type": "Recreate"},
            "progressDeadlineSeconds": PROGRESS_DEADLINE_SECONDS,
            "selector": {"matchLabels": {UNIT_LABEL: name}},
            "template": {
                "metadata": {"labels": {**_labels(name), UNIT_UID_LABEL: metadata["uid"]}},
                "spec": _pod(unit, spec, priority),
            },
        },
    }


def service(unit: Manifest, spec: GPUUnitSpec) -> Manifest:
    """Return the ClusterIP Service in front of the unit's pod, one port for each of its ports."""
    name = unit["metadata"]["name"]
    return {
        "apiVersion": SERVICE.api_version,
        "kind": SERVICE.kind,
        "metadata": _metadata(unit, service_name(name)),
        "spec": {
            "type": "ClusterIP",
            "selector": {UNIT_LABEL: name},
            "ports": service_ports(spec.ports),
        },
    }


def access_url(unit: Manifest, spec: GPUUnitSpec) -> str | None:
    """Return where the unit answers inside the cluster; None without a port to answer on."""
    port = spec.primary_port
    if port is None:
        return None
    metadata = unit["metadata"]
    scheme = spec.access.scheme if spec.access else DEFAULT_SCHEME
    host = f"{service_name(metadata['name'])}.{metadata['namespace']}.svc.cluster.local"
    return f"{scheme}://{host}:{port.port}"


def _pod(unit: Manifest, spec: GPUUnitSpec, priority: str) -> Manifest:
    pod = pod_spec(_workload(unit, spec, priority))
    if spec.serverless is None:
        return pod
    name, uid = (unit["metadata"][key] for key in ("name", "uid"))
    return worker_pod(pod, spec.serverless, unit=name, token=uid)


def _metadata(unit: Manifest, name: str) -> Manifest:
    return {
        "name": name,
        "namespace": unit["metadata"]["namespace"],
        "labels": _labels(unit["metadata"]["name"]),
        "ownerReferences": [controller_reference(unit)],
    }


def _labels(unit_name: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "gpu-unit",
        MANAGED_BY_LABEL: MANAGER,
        UNIT_LABEL: unit_name,
    }


def _workload(unit: Manifest, spec: GPUUnitSpec, priority: str) -> Workload:
    template = spec.template or PodTemplate()
    metadata = unit["metadata"]
    return Workload(
        image=spec.image,
        template=template,
        environment={
            "SPEC_NAME": spec.spec_name,
            "UNIT_NAME": metadata["name"],
            "GPU_COUNT": str(spec.gpu),
            "MEMORY_LIMIT": spec.memory or "",
        },
        size=Size(cpu=spec.cpu, memory=spec.memory, gpu=spec.gpu),
        # A user's image runs its own program when the template names none.
        is_reservation=not (spec.image or template.command or template.args),
        priority_class=priority,
        placement=spec.placement,
        probes_port=role_of(metadata["namespace"]) == UnitRole.ACTIVE,
    )
