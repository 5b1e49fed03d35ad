"""Pods of templates, for the tests of their fields."""

from typing import Any

import pytest

from gpuplatform.errors import InvalidSpec
from gpuplatform.workloads.pods import Size, Workload, pod_spec
from gpuplatform.workloads.template import PodTemplate
from tests.factories.inventory import POD_SETTINGS

FULL_TEMPLATE: dict[str, Any] = {
    "args": ["$$", "\x1b[0m"],
    "workingDir": "/workspace",
    "envs": [{"name": "LD_PRELOAD", "value": "/usr/lib/libtcmalloc.so"}],
    "envFrom": [{"prefix": "HF_", "secretRef": {"name": "hf", "optional": True}}],
    "readiness": {"httpGet": {"path": "/health", "port": 8000}},
    "startup": {"tcpSocket": {"port": 8000}, "seconds": 7200},
    "liveness": {"exec": {"command": ["nvidia-smi"]}},
    "imagePullSecrets": [{"name": "registry"}],
    "shmSize": "8Gi",
    "scratch": {"size": "10Gi", "mountPath": "/data"},
    "ephemeralStorage": "20Gi",
    "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
    "terminationGracePeriodSeconds": 300,
    "securityContext": {"runAsUser": 0, "readOnlyRoot": True},
}
"""A template with every field, in its canonical form."""

APP = Size(cpu=None, memory="16Gi", gpu=1)


def pod_of(
    template: dict[str, Any], *, size: Size = APP, is_reservation: bool = False, **changes: Any
) -> dict[str, Any]:
    """Return the spec of a pod with `template`."""
    return pod_spec(
        Workload(
            image="app:1",
            template=PodTemplate.parse(template),
            environment={},
            size=size,
            is_reservation=is_reservation,
            settings=POD_SETTINGS,
            **changes,
        )
    )


def container_of(template: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the container of a pod with `template`."""
    [found] = pod_of(template, **changes)["containers"]
    assert isinstance(found, dict)
    return found


def invalid_fields(template: dict[str, Any]) -> list[str]:
    """Return the fields that make `template` invalid."""
    with pytest.raises(InvalidSpec) as caught:
        PodTemplate.parse(template)
    return [one.field for one in caught.value.details]
