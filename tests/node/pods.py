"""Pods of the test image, and their HTTP server."""

import json
from collections.abc import Mapping
from typing import Any

import urllib3

from gpuplatform.kube.kinds import POD, Manifest
from tests.cluster.world import World, is_ready
from tests.node.images import APP

PORT = 8080
HTTP = {"ports": [{"name": "http", "port": PORT}]}
"""The template of a unit with the test image."""
_POOL = urllib3.PoolManager(retries=False, timeout=5)


def run_app(
    world: World,
    name: str,
    node: str,
    *,
    port: int = PORT,
    labels: Mapping[str, str] | None = None,
    **more: str,
) -> Manifest:
    """Run the test image on a node with these labels, and return the pod once it is ready."""
    container = {
        "name": "app",
        "image": APP,
        "env": [{"name": "PORT", "value": str(port)}],
        "readinessProbe": {"httpGet": {"path": "/", "port": port}, "periodSeconds": 1},
    }
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    metadata = {"name": name, "labels": {**(labels or {}), **more}}
    world.create(POD, {"metadata": metadata, "spec": spec})

    def ready() -> Manifest | None:
        pod = world.get(POD, name)
        return pod if is_ready(pod) else None

    return world.until(ready)


def address(pod: Manifest, port: int = PORT) -> str:
    """Return the URL of the server in a pod."""
    return f"http://{pod['status']['podIP']}:{port}"


def describe(url: str) -> Any:
    """Return the description that the server gives of its container."""
    return json.loads(_POOL.request("GET", url).data)


def reaches(client: Manifest, server: Manifest, port: int = PORT) -> bool:
    """Return whether a pod can reach a port of another one."""
    url = address(server, port)
    reply = _POOL.request("GET", f"{address(client)}/fetch", fields={"url": url})
    return reply.status == 200
