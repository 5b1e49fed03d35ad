"""Pods of workers, as the platform creates them, and their processes."""

import secrets

from gpuplatform.dev.embedded.processes import all_processes, has_environment
from gpuplatform.images import ECHO_IMAGE, PLATFORM_IMAGE
from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.function_worker import Serverless
from tests.cluster.world import condition, container, pod
from tests.sidecar.rig import FUNCTION, TENANT
from units.core.workers import worker_pod

SECRET_NAME = "fn-7-queue"


def worker(queue_url: str, *, node: str = "") -> Manifest:
    """Return the pod of a worker with a unique name."""
    name = f"worker-{secrets.token_hex(4)}"
    block = Serverless.parse(
        {
            "functionID": FUNCTION,
            "tenant": TENANT,
            "queueURL": queue_url,
            "credentialsSecret": SECRET_NAME,
            "concurrency": 2,
            "timeoutSeconds": 5,
        }
    )
    function = {**container(image=ECHO_IMAGE), "env": [], "volumeMounts": []}
    made = pod(name, function, **({"nodeName": node} if node else {}))
    spec = {"terminationGracePeriodSeconds": 1, **made["spec"], "volumes": []}
    return {**made, "spec": worker_pod(spec, block, PLATFORM_IMAGE, unit=name, token="token")}


def processes_of(made: Manifest) -> list[int]:
    """Return the processes of the pod's containers."""
    mark = f"SERVERLESS_WORKER_NAME={made['metadata']['name']}"
    return [one.pid for one in all_processes() if has_environment(one.pid, mark)]


def container_ready(found: Manifest) -> dict[str, bool]:
    """Return whether each container of a pod is ready, by name."""
    statuses = (found.get("status") or {}).get("containerStatuses") or []
    return {entry["name"]: entry["ready"] for entry in statuses}


def pod_ready(found: Manifest | None) -> bool:
    """Return whether the pod is ready."""
    return found is not None and condition(found, "Ready").get("status") == "True"
