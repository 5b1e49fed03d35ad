"""Builds the pod of a worker of a function: the function's container and the sidecar. Pure.

Both containers start at the same time, and the sidecar waits until the function responds. The pod
is ready when the function responds and the sidecar is connected to the queue. A preStop hook
delays SIGTERM for both containers until the sidecar has drained the worker.
"""

from typing import Any, Final

from gpuplatform.formats.text import escaped
from gpuplatform.images import SIDECAR_COMMAND
from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.function_worker import SIDECAR_PORT, SOCKET_DIRECTORY, Serverless

SIDECAR_NAME: Final = "sidecar"
DRAIN_TOKEN_HEADER: Final = "X-Worker-Token"  # noqa: S105 - the name of a header
CREDENTIALS_DIRECTORY: Final = "/run/queue"

DRAIN_MARGIN_SECONDS: Final = 5
"""Duration in seconds after the timeout of an invocation for the report of its result."""

GRACE_MARGIN_SECONDS: Final = 15
"""Duration in seconds between the timeout of an invocation and the kill of the pod."""

_SOCKET_VOLUME: Final = "framework"
_CREDENTIALS_VOLUME: Final = "queue-credentials"
_USER: Final = 10001
_MEBIBYTES: Final = 128
_MEBIBYTES_PER_INVOCATION: Final = 6
"""Memory for one payload, one result, and the message that contains the result."""


def worker_pod(pod: Manifest, block: Serverless, image: str, *, unit: str, token: str) -> Manifest:
    """Return the pod spec `pod` with the sidecar added.

    Args:
        pod: The pod spec with the container of the function.
        block: The worker settings in the spec of the unit.
        image: The image of the sidecar.
        unit: The name of the unit.
        token: A secret of the pod that authorizes a drain of the worker.
    """
    [function] = pod["containers"]
    function = {
        **function,
        "env": [*_shared_environment(block, unit), *function["env"]],
        "volumeMounts": [*function["volumeMounts"], _mount(_SOCKET_VOLUME, SOCKET_DIRECTORY)],
        "lifecycle": _drain_hook(token),
    }
    return {
        **pod,
        "terminationGracePeriodSeconds": max(
            block.timeout_seconds + GRACE_MARGIN_SECONDS, pod["terminationGracePeriodSeconds"]
        ),
        "containers": [function, _sidecar(block, image, unit, token)],
        "volumes": [
            *pod["volumes"],
            {"name": _SOCKET_VOLUME, "emptyDir": {}},
            {"name": _CREDENTIALS_VOLUME, "secret": {"secretName": block.credentials_secret}},
        ],
    }


def _sidecar(block: Serverless, image: str, unit: str, token: str) -> Manifest:
    memory = f"{_MEBIBYTES + _MEBIBYTES_PER_INVOCATION * block.concurrency}Mi"
    return {
        "name": SIDECAR_NAME,
        "image": image,
        "command": list(SIDECAR_COMMAND),
        "env": [
            *_shared_environment(block, unit),
            *_pairs(_sidecar_environment(block)),
            {"name": "SERVERLESS_DRAIN_TOKEN", "value": token},
        ],
        "ports": [{"name": "health", "containerPort": SIDECAR_PORT, "protocol": "TCP"}],
        "resources": {
            "requests": {"cpu": "100m", "memory": memory},
            "limits": {"cpu": "1", "memory": memory},
        },
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": SIDECAR_PORT},
            "periodSeconds": 1,
            "timeoutSeconds": 2,
        },
        "livenessProbe": {
            "httpGet": {"path": "/livez", "port": SIDECAR_PORT},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
        "lifecycle": _drain_hook(token),
        "volumeMounts": [
            _mount(_SOCKET_VOLUME, SOCKET_DIRECTORY),
            {**_mount(_CREDENTIALS_VOLUME, CREDENTIALS_DIRECTORY), "readOnly": True},
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _shared_environment(block: Serverless, unit: str) -> list[dict[str, str]]:
    """Return the environment variables that both containers have."""
    framework = block.framework
    return _pairs(
        {
            "SERVERLESS_FUNCTION_ID": str(block.function_id),
            "SERVERLESS_WORKER_NAME": unit,
            "SERVERLESS_SOCKET_PATH": framework.socket_path,
            "SERVERLESS_INVOKE_PATH": framework.invoke_path,
            "SERVERLESS_HEALTH_PATH": framework.health_path,
        }
    )


def _sidecar_environment(block: Serverless) -> dict[str, str]:
    framework = block.framework
    # Defaults are omitted, so that workers of an earlier release keep their manifest.
    port = {"SERVERLESS_FRAMEWORK_PORT": str(framework.port)} if framework.port else {}
    is_post = framework.method == "POST"
    return {
        **port,
        **({} if is_post else {"SERVERLESS_INVOKE_METHOD": framework.method}),
        "SERVERLESS_TENANT": block.tenant,
        "SERVERLESS_QUEUE_URL": block.queue_url,
        "SERVERLESS_CREDENTIALS_DIRECTORY": CREDENTIALS_DIRECTORY,
        "SERVERLESS_CONCURRENCY": str(block.concurrency),
        "SERVERLESS_MAX_DELIVER": str(block.max_deliver),
        "SERVERLESS_BACKOFF_SECONDS": ",".join(map(str, block.backoff_seconds)),
        "SERVERLESS_DRAIN_SECONDS": str(block.timeout_seconds + DRAIN_MARGIN_SECONDS),
        "SERVERLESS_HEALTH_ADDRESS": f":{SIDECAR_PORT}",
    }


def _drain_hook(token: str) -> Manifest:
    """Return the preStop hook that delays SIGTERM until the worker is drained."""
    return {
        "preStop": {
            "httpGet": {
                "path": "/drain",
                "port": SIDECAR_PORT,
                "httpHeaders": [{"name": DRAIN_TOKEN_HEADER, "value": token}],
            }
        }
    }


def _pairs(environment: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": escaped(value)} for name, value in environment.items()]


def _mount(volume: str, path: str) -> dict[str, Any]:
    return {"name": volume, "mountPath": path}
