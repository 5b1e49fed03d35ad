"""What a stock pool looks like in the cluster: its Deployment, its pods, its Service.

Built field by field; a caller's dict is never merged in. Pure. Reviewed as data in `tests/golden`.
"""

import hashlib
import json
from typing import Any, Final

from gpuplatform.kube.kinds import DEPLOYMENT, GROUP, SERVICE, Manifest
from gpuplatform.reconciliation.ownership import (
    MANAGED_BY_LABEL,
    MANAGER,
    POOL_LABEL,
    controller_reference,
)
from inventory.core.names import deployment_name, service_name
from inventory.core.spec import PodTemplate, StockPoolSpec

TEMPLATE_VERSION: Final = 1
"""Raised by a release that changes the pods of an unchanged spec. Running pods keep the older
template until their spec changes: a new release restarts nobody's job."""

TEMPLATE_VERSION_ANNOTATION: Final = f"{GROUP}/template-version"
SPEC_HASH_ANNOTATION: Final = f"{GROUP}/spec-hash"

STOCK_PRIORITY_CLASS: Final = "gpu-platform-stock"
RESERVATION_IMAGE: Final = "busybox:1.36"
RESERVATION_COMMAND: Final = ("sh", "-c", "trap : TERM INT; sleep 2147483647 & wait")
"""Holds the GPU and ends at once on SIGTERM."""

CONTAINER_NAME: Final = "runtime-worker"
GPU_RESOURCE: Final = "nvidia.com/gpu"
PROGRESS_DEADLINE_SECONDS: Final = 600
RESERVATION_GRACE_SECONDS: Final = 1
WORKLOAD_GRACE_SECONDS: Final = 30


def spec_hash(spec: StockPoolSpec) -> str:
    """Return a fingerprint of what of the spec reaches the pod template."""
    template = {key: value for key, value in spec.normalised().items() if key != "replicas"}
    canonical = json.dumps(template, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def deployment(pool: Manifest, spec: StockPoolSpec) -> Manifest:
    """Return the Deployment of `pool`.

    It replaces pods by `Recreate`: a rolling update would need a second GPU.
    """
    name = pool["metadata"]["name"]
    metadata = _metadata(pool, deployment_name(name))
    metadata["annotations"] = {
        SPEC_HASH_ANNOTATION: spec_hash(spec),
        TEMPLATE_VERSION_ANNOTATION: str(TEMPLATE_VERSION),
    }
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
                "spec": _pod_spec(name, spec),
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
            "ports": [
                {
                    "name": port.name,
                    "port": port.port,
                    "targetPort": port.port,
                    "protocol": port.protocol,
                }
                for port in template.ports
            ],
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


def _pod_spec(pool_name: str, spec: StockPoolSpec) -> Manifest:
    template = spec.template or PodTemplate()
    is_reservation = not template.command and not template.args
    return {
        "restartPolicy": "Always",  # The one that the pods of a Deployment may have.
        "priorityClassName": STOCK_PRIORITY_CLASS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": (
            RESERVATION_GRACE_SECONDS if is_reservation else WORKLOAD_GRACE_SECONDS
        ),
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(pool_name, spec, template, is_reservation=is_reservation)],
    }


def _container(
    pool_name: str, spec: StockPoolSpec, template: PodTemplate, *, is_reservation: bool
) -> Manifest:
    container: dict[str, Any] = {
        "name": CONTAINER_NAME,
        "image": spec.image or RESERVATION_IMAGE,
        "env": _environment(pool_name, spec, template),
        "securityContext": {"allowPrivilegeEscalation": False},
    }
    command = RESERVATION_COMMAND if is_reservation else template.command
    # Empty lists are left out: the API server leaves them out too, so they would look like drift.
    if command:
        container["command"] = list(command)
    if template.args:
        container["args"] = list(template.args)
    if template.ports:
        container["ports"] = [
            {"name": port.name, "containerPort": port.port, "protocol": port.protocol}
            for port in template.ports
        ]
    resources = _resources(spec)
    if resources:
        container["resources"] = {"requests": resources, "limits": dict(resources)}
    return container


def _environment(
    pool_name: str, spec: StockPoolSpec, template: PodTemplate
) -> list[dict[str, str]]:
    ours = {
        "SPEC_NAME": spec.spec_name,
        "POOL_NAME": pool_name,
        "GPU_COUNT": str(spec.gpu),
        "MEMORY_LIMIT": spec.memory or "",
    }
    theirs = {env.name: env.value for env in template.envs}
    # A variable without a value is empty, and the API server leaves an empty value out.
    return [
        {"name": name, "value": value} if value else {"name": name}
        for name, value in {**ours, **theirs}.items()
    ]


def _resources(spec: StockPoolSpec) -> dict[str, str]:
    resources = {}
    if spec.memory:
        resources["memory"] = spec.memory
    if spec.gpu:
        resources[GPU_RESOURCE] = str(spec.gpu)
    return resources
