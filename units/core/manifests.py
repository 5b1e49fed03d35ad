"""Builds the `GPUUnit` resource of an operation, and the objects that a unit owns.

Every field is set explicitly; no dict of a caller is merged in. The golden files in `tests/golden`
show the results. Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

from gpuplatform.kube.kinds import GPU_UNIT, Manifest
from gpuplatform.planning.ownership import MANAGED_BY_LABEL, MANAGER, UNIT_LABEL
from gpuplatform.workloads.labels import pod_labels, tenant_label
from gpuplatform.workloads.objects import OwnedObjects
from gpuplatform.workloads.pod_settings import PodSettings
from gpuplatform.workloads.pods import Size, Workload, pod_spec
from gpuplatform.workloads.releases import template_hash
from gpuplatform.workloads.template import PodTemplate
from units.core.groups import GROUP_LABEL, member_name
from units.core.names import UNIT_UID_LABEL, object_name
from units.core.spec import DEFAULT_SCHEME, GPUUnitSpec
from units.core.view import UnitView
from units.core.workers import worker_pod
from units.phases import UnitRole, role_of

_NOT_IN_THE_POD: Final = frozenset({"access", "suspend"})


def resource(
    namespace: str, name: str, spec: GPUUnitSpec, annotations: Mapping[str, str]
) -> Manifest:
    """Return the `GPUUnit` resource that an operation creates."""
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
    """Return a hash of the spec fields that the pod template depends on.

    It does not cover the image of the sidecar: earlier releases stored their default in the spec,
    and a new release must not restart their workers.
    """
    payload = {k: v for k, v in spec.normalised().items() if k not in _NOT_IN_THE_POD}
    payload.get("serverless", {}).pop("sidecarImage", None)
    return template_hash(payload)


def deployment(unit: UnitView, *, replicas: int, priority: str, settings: PodSettings) -> Manifest:
    """Return the Deployment of `unit` with 0 or 1 `replicas` and a priority class.

    The program of its pod is always started again.
    """
    endless = _template(unit).model_copy(update={"restart": "always"})
    return _owned(unit).deployment(
        _pod(unit, endless, priority, settings), replicas=replicas, **_described(unit, settings)
    )


def job(unit: UnitView, *, priority: str, settings: PodSettings) -> Manifest:
    """Return the suspended Job of `unit`, whose program may end, with a priority class."""
    return _owned(unit).job(
        _pod(unit, _template(unit), priority, settings),
        is_suspended=True,
        **_described(unit, settings),
    )


def service(unit: UnitView) -> Manifest:
    """Return the Service of `unit`."""
    return _owned(unit).service(unit.spec.ports, is_headless=unit.spec.group is not None)


def access_url(unit: UnitView) -> str | None:
    """Return the URL of the unit inside the cluster, or `None` if the unit has no port."""
    port, access = unit.spec.primary_port, unit.spec.access
    if port is None:
        return None
    scheme = access.scheme if access else DEFAULT_SCHEME
    return f"{scheme}://{_address(unit.namespace, unit.name)}:{port.port}"


def _address(namespace: str, unit: str) -> str:
    return f"{object_name(unit)}.{namespace}.svc.cluster.local"


def _template(unit: UnitView) -> PodTemplate:
    return unit.spec.template or PodTemplate()


def _described(unit: UnitView, settings: PodSettings) -> dict[str, Any]:
    """Return the parameters that the Deployment and the Job have in common."""
    return {
        "pod_labels": {**_labels(unit.name, unit.spec), UNIT_UID_LABEL: unit.uid},
        "pod_annotations": _template(unit).annotations,
        "spec_hash": spec_hash(unit.spec),
        "settings": settings,
    }


def _pod(unit: UnitView, template: PodTemplate, priority: str, settings: PodSettings) -> Manifest:
    pod = pod_spec(_workload(unit, template, priority, settings))
    if affinity := _affinity(unit):
        pod["affinity"] = affinity
    if unit.spec.group:
        pod["hostname"] = unit.name
    block = unit.spec.serverless
    if block is None:
        return pod
    image = block.sidecar_image or settings.sidecar_image
    return worker_pod(pod, block, image, unit=unit.name, token=unit.uid)


def _affinity(unit: UnitView) -> Manifest:
    """Return the affinity of the pods of a unit that avoids or prefers a node."""
    found: Manifest = {}
    if unit.avoided_node:
        terms = [_matching("NotIn", unit.avoided_node)]
        found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if unit.preferred_node:  # The pod runs on the node if it has free GPUs.
        preference = _matching("In", unit.preferred_node)
        term = {"weight": 100, "preference": preference}
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [term]
    return {"nodeAffinity": found} if found else {}


def _matching(operator: str, node: str) -> Manifest:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": [node]}]}


def _owned(unit: UnitView) -> OwnedObjects:
    labels = _labels(unit.name, unit.spec) | _tenant_label(unit.namespace, unit.annotations)
    return OwnedObjects(unit, object_name(unit.name), labels, {UNIT_LABEL: unit.name})


def _tenant_label(namespace: str, annotations: Mapping[str, Any]) -> dict[str, str]:
    """Return the tenant label of an active unit; a stock unit has no tenant label."""
    return tenant_label(annotations) if role_of(namespace) == UnitRole.ACTIVE else {}


def _labels(unit_name: str, spec: GPUUnitSpec) -> dict[str, str]:
    function_id = spec.serverless.function_id if spec.serverless else None
    group = {GROUP_LABEL: spec.group.name} if spec.group else {}
    return {
        "app.kubernetes.io/name": "gpu-unit",
        MANAGED_BY_LABEL: MANAGER,
        UNIT_LABEL: unit_name,
        **pod_labels(spec.spec_name, function_id),
        **group,
    }


def _workload(
    unit: UnitView, template: PodTemplate, priority: str, settings: PodSettings
) -> Workload:
    spec = unit.spec
    return Workload(
        image=spec.image,
        template=template,
        environment={
            "SPEC_NAME": spec.spec_name,
            "UNIT_NAME": unit.name,
            "GPU_COUNT": str(spec.gpu),
            "MEMORY_LIMIT": spec.memory or "",
            **_group_variables(unit),
        },
        size=Size(spec.cpu, spec.memory, spec.gpu, spec.resource_name, spec.resources),
        # Without a command in the template, the image of a user runs its default command.
        is_reservation=not (spec.image or template.command or template.args),
        settings=settings,
        priority_class=priority,
        placement=spec.placement,
        primary_port=spec.primary_port,
    )


def _group_variables(unit: UnitView) -> dict[str, str]:
    """Return the variables of a unit of a group: its place, and the address of rank 0."""
    group = unit.spec.group
    if group is None:
        return {}
    return {
        "GROUP_NAME": group.name,
        "GROUP_RANK": str(group.rank),
        "GROUP_SIZE": str(group.size),
        "GROUP_MASTER": _address(unit.namespace, member_name(group.name, 0)),
    }
