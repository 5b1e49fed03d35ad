"""Builds the pod template of a pool or a unit, and the ports of its Service. Pure.

Each field is set explicitly. The JSON of a request is never merged into a manifest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gpuplatform.formats.text import escaped
from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.placement import Placement
from gpuplatform.workloads.pod_settings import PodSettings
from gpuplatform.workloads.probes import container_probes
from gpuplatform.workloads.process import SecurityContext
from gpuplatform.workloads.resources import GPU_RESOURCE, amounts
from gpuplatform.workloads.storage import EPHEMERAL_STORAGE, half_of, storage_limit, volumes
from gpuplatform.workloads.template import PodTemplate, Port, Restart
from gpuplatform.workloads.variables import EnvVar

STOCK_PRIORITY_CLASS: Final = "gpu-platform-stock"
UNIT_PRIORITY_CLASS: Final = "gpu-platform-unit"
RESERVATION_COMMAND: Final = ("sh", "-c", "trap : TERM INT; sleep 2147483647 & wait")
"""The command of a reservation, which exits immediately on SIGTERM."""

CONTAINER_NAME: Final = "runtime-worker"
PROGRESS_DEADLINE_SECONDS: Final = 600
RESERVATION_GRACE_SECONDS: Final = 1
WORKLOAD_GRACE_SECONDS: Final = 30

_RESTART_POLICIES: Final[Mapping[Restart, str]] = {
    "always": "Always",
    "onFailure": "OnFailure",
    "never": "Never",
}


@dataclass(frozen=True, slots=True)
class Size:
    """The resources of the pod. Requests and limits are equal."""

    cpu: str | None
    memory: str | None
    gpu: int
    resource_name: str = GPU_RESOURCE
    """The extended resource that `gpu` counts."""
    further: Mapping[str, str] = field(default_factory=dict)
    """Further extended resources."""

    def resources(self) -> dict[str, str]:
        """Return the requested quantities by resource name."""
        found = {"cpu": self.cpu, "memory": self.memory}
        return {
            **{name: amount for name, amount in found.items() if amount},
            **amounts(self.gpu, self.resource_name, self.further),
        }


@dataclass(frozen=True, slots=True)
class Workload:
    """The parameters of a pod."""

    image: str | None
    template: PodTemplate
    environment: Mapping[str, str]
    """The environment variables that the platform sets. They precede the variables of the
    template."""
    size: Size
    is_reservation: bool
    """Whether the pod is a placeholder that only holds its GPUs."""
    settings: PodSettings
    priority_class: str = STOCK_PRIORITY_CLASS
    placement: Placement | None = None
    primary_port: Port | None = None
    """The port that the probes use by default, if its protocol is TCP."""


def pod_spec(workload: Workload) -> Manifest:
    """Return the spec of the pod."""
    spec: Manifest = {
        "restartPolicy": _RESTART_POLICIES[workload.template.restart],
        "priorityClassName": workload.priority_class,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _grace_seconds(workload),
        "securityContext": {
            "seccompProfile": {"type": "RuntimeDefault"},
            **_security(workload).of_pod(),
        },
        "containers": [_container(workload)],
        **workload.settings.pulls(
            tuple(secret.name for secret in workload.template.image_pull_secrets)
        ),
    }
    if mounted := [volume for volume, _ in _volumes(workload)]:
        spec["volumes"] = mounted
    # Adds `nodeSelector` and `tolerations`, unless they are empty.
    return spec | (workload.placement.normalised() if workload.placement else {})


def _grace_seconds(workload: Workload) -> int:
    if workload.is_reservation:
        return RESERVATION_GRACE_SECONDS
    return workload.template.termination_grace_period_seconds or WORKLOAD_GRACE_SECONDS


def _security(workload: Workload) -> SecurityContext:
    return workload.template.security_context or SecurityContext()


def service_ports(ports: Sequence[Port]) -> list[Manifest]:
    """Return the ports of the Service, one for each port of the container."""
    return [
        {"name": port.name, "port": port.port, "targetPort": port.port, "protocol": port.protocol}
        for port in ports
    ]


def _container(workload: Workload) -> Manifest:
    template = workload.template
    container: dict[str, Any] = {
        "name": CONTAINER_NAME,
        "image": workload.image or workload.settings.reservation_image,
        "env": _environment(_platform_variables(workload), template),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            **_security(workload).of_container(),
        },
    }
    command = RESERVATION_COMMAND if workload.is_reservation else template.command
    optional = {
        "command": [escaped(word) for word in command],
        "args": [escaped(word) for word in template.args],
        "workingDir": template.working_dir,
        "envFrom": [source.normalised() for source in template.env_from],
        "ports": [
            {"name": port.name, "containerPort": port.port, "protocol": port.protocol}
            for port in template.ports
        ],
        # The status of a failed container contains the last lines of its log.
        "terminationMessagePolicy": "" if workload.is_reservation else "FallbackToLogsOnError",
        "resources": _resources(workload),
        "volumeMounts": [mount for _, mount in _volumes(workload)],
        **_probes(workload),
    }
    # The API server omits empty lists, so empty lists would look like drift.
    return container | {key: value for key, value in optional.items() if value}


def _probes(workload: Workload) -> Manifest:
    """Return the probes. A reservation has no program that could respond."""
    if workload.is_reservation:
        return {}
    template, primary = workload.template, workload.primary_port
    is_tcp = primary is not None and primary.protocol == "TCP"
    port = primary.port if primary and is_tcp else template.first_tcp_port
    return container_probes(template.readiness, template.startup, template.liveness, port)


def _resources(workload: Workload) -> Manifest:
    """Return the requests and limits. A reservation writes no files.

    The pod of a unit must fit where its stock unit was, so it requests no storage.
    """
    requests, limits = workload.size.resources(), workload.size.resources()
    if not workload.is_reservation:
        template = workload.template
        requests[EPHEMERAL_STORAGE] = "0"
        limits[EPHEMERAL_STORAGE] = storage_limit(
            template.ephemeral_storage, template.scratch, workload.size.gpu
        )
    return {"requests": requests, "limits": limits} if limits else {}


def _volumes(workload: Workload) -> list[tuple[Manifest, Manifest]]:
    """Return the volumes and their mounts. A reservation needs none."""
    if workload.is_reservation:
        return []
    template = workload.template
    return list(volumes(template.shm_size or half_of(workload.size.memory), template.scratch))


def _platform_variables(workload: Workload) -> Mapping[str, str]:
    """Return the variables of the platform.

    Without GPUs, no device plugin sets `NVIDIA_VISIBLE_DEVICES`, and an image that sets it to
    `all` would have access to all GPUs of the node. With GPUs of any resource, the variable is
    left to the device plugin: several plugins share NVIDIA GPUs under other names.
    """
    hidden = {} if workload.size.gpu else {"NVIDIA_VISIBLE_DEVICES": "void"}
    return {**workload.environment, **hidden}


def _environment(platform: Mapping[str, str], template: PodTemplate) -> list[Manifest]:
    found = {name: _plain(name, value) for name, value in platform.items()}
    return [*{**found, **{env.name: _variable(env) for env in template.envs}}.values()]


def _variable(env: EnvVar) -> Manifest:
    if env.value_from is None:
        return _plain(env.name, escaped(env.value))
    return {"name": env.name, "valueFrom": env.value_from.normalised()}


def _plain(name: str, value: str) -> Manifest:
    # The API server omits an empty value.
    return {"name": name, "value": value} if value else {"name": name}
