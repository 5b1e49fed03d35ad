"""A server under test: namespace, client, raw HTTP."""

import base64
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import urllib3
import yaml

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    GPU_UNIT,
    JOB,
    POD,
    REPLICA_SET,
    STOCK_POOL,
    Manifest,
    ResourceKind,
)

Found = TypeVar("Found")

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
WAIT_SECONDS = 30.0
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.05, 0.25
RUNNING = (GPU_UNIT, STOCK_POOL, DEPLOYMENT, REPLICA_SET, JOB, POD)
"""Kinds that hold GPUs or create such objects, owners first."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A response of the server."""

    status: int
    body: Any
    """Parsed JSON, or text."""
    content_type: str

    @property
    def reason(self) -> str:
        """The reason of a Status object."""
        return str(self.body.get("reason", "")) if isinstance(self.body, dict) else ""

    @property
    def message(self) -> str:
        """The message of a Status object."""
        return str(self.body.get("message", "")) if isinstance(self.body, dict) else str(self.body)

    @property
    def fields(self) -> list[str]:
        """The fields of an error."""
        details = self.body.get("details") or {}
        return [cause.get("field", "") for cause in details.get("causes") or []]


class Http:
    """Raw requests with the permissions of a kubeconfig or a token."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text("utf-8"))
        cluster = config["clusters"][0]["cluster"]
        self.server = cluster["server"].rstrip("/")
        self.token = (config["users"][0]["user"] or {}).get("token", "")
        authority = cluster.get("certificate-authority-data")
        self._pool = urllib3.PoolManager(
            retries=False,
            timeout=60,
            ca_cert_data=base64.b64decode(authority).decode() if authority else None,
        )

    def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        *,
        token: str | None = None,
        accept: str = "application/json",
    ) -> Reply:
        """Send one request. `body` is sent as JSON unless it is bytes."""
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        if token or self.token:
            headers["Authorization"] = f"Bearer {token or self.token}"
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        answer = self._pool.request(method, self.server + path, body=data, headers=headers)
        text = answer.data.decode("utf-8", "replace")
        try:
            return Reply(answer.status, json.loads(text), answer.headers.get("Content-Type") or "")
        except ValueError:
            return Reply(answer.status, text, answer.headers.get("Content-Type") or "")

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()


@dataclass
class World:
    """One server with the namespace of one test."""

    server: str
    kubeconfig: Path
    cluster: Cluster
    http: Http
    namespace: str
    _pause: threading.Event = field(default_factory=threading.Event)

    def path(self, kind: ResourceKind, name: str = "", subresource: str = "") -> str:
        """Return the URL path of an object, or a collection, in the test's namespace."""
        return kind.path(self.namespace if kind.namespaced else None, name, subresource)

    def get(self, kind: ResourceKind, name: str) -> Manifest:
        """Return an object that exists."""
        found = self.find(kind, name)
        assert found is not None, f"{kind.kind} {name} does not exist"
        return found

    def find(self, kind: ResourceKind, name: str) -> Manifest | None:
        """Return an object, or None."""
        return self.cluster.get(kind, name, namespace=self._place(kind))

    def list(self, kind: ResourceKind, label_selector: str = "") -> list[Manifest]:
        """Return the objects in the test's namespace."""
        return self.cluster.list(
            kind, namespace=self._place(kind), label_selector=label_selector
        ).items

    def create(self, kind: ResourceKind, manifest: Manifest) -> Manifest:
        """Create an object in the test's namespace."""
        return self.cluster.create(kind, self.placed(kind, manifest))

    def apply(
        self, kind: ResourceKind, manifest: Manifest, manager: str = "one", *, force: bool = False
    ) -> Manifest:
        """Apply an object in the test's namespace."""
        placed = self.placed(kind, manifest)
        return self.cluster.apply(kind, placed, field_manager=manager, force=force)

    def patch(self, kind: ResourceKind, name: str, patch: Manifest, sub: str = "") -> Manifest:
        """Merge-patch an object in the test's namespace."""
        place = self._place(kind)
        return self.cluster.merge_patch(kind, name, patch, namespace=place, subresource=sub)

    def delete(self, kind: ResourceKind, name: str, propagation: str = "Background") -> bool:
        """Delete an object in the test's namespace."""
        place = self._place(kind)
        return self.cluster.delete(kind, name, namespace=place, propagation=propagation)

    def placed(self, kind: ResourceKind, manifest: Manifest) -> Manifest:
        """Return the manifest with kind, apiVersion and namespace."""
        metadata = dict(manifest["metadata"])
        if kind.namespaced:
            metadata.setdefault("namespace", self.namespace)
        kinds = {"apiVersion": kind.api_version, "kind": kind.kind}
        return {**kinds, **manifest, "metadata": metadata}

    def config_map(self, name: str = "one", **data: str) -> Manifest:
        """Create a ConfigMap."""
        return self.create(CONFIG_MAP, {"metadata": {"name": name}, "data": data})

    def until(self, probe: Callable[[], Found | None], seconds: float = WAIT_SECONDS) -> Found:
        """Return the first true result of `probe`; fail after the timeout.

        The interval of calls increases.
        """
        deadline, pause = time.monotonic() + seconds, FIRST_PAUSE_SECONDS
        while True:
            found = probe()
            if found:
                return found
            assert time.monotonic() < deadline, f"not true within {seconds:g} s: {_name(probe)}"
            self._pause.wait(pause)
            pause = min(1.25 * pause, LAST_PAUSE_SECONDS)

    def gone(self, kind: ResourceKind, name: str) -> None:
        """Wait until the object is deleted."""
        self.until(lambda: self.find(kind, name) is None)

    def clear(self) -> None:
        """Delete the objects of the test that hold GPUs.

        Other objects of its namespace affect no other test; their deletion would cost dozens of
        requests.
        """
        for kind in RUNNING:
            self.http("DELETE", self.path(kind))

    def _place(self, kind: ResourceKind) -> str | None:
        return self.namespace if kind.namespaced else None


def _name(probe: Callable[[], object]) -> str:
    return getattr(probe, "__qualname__", "a condition")


def container(*command: str, image: str = "registry.example/app:1", **more: Any) -> Manifest:
    """Return a container of a pod."""
    entry: Manifest = {"name": "main", "image": image, **more}
    return entry | {"command": list(command)} if command else entry


def gpus(count: int) -> Manifest:
    """Return the resources of a container with GPUs."""
    return {"limits": {"nvidia.com/gpu": str(count)}}


def pod(name: str, entry: Manifest | None = None, **spec: Any) -> Manifest:
    """Return a pod of one container."""
    return {"metadata": {"name": name}, "spec": {"containers": [entry or container()], **spec}}


def deployment(
    name: str, entry: Manifest | None = None, *, replicas: int = 1, **spec: Any
) -> Manifest:
    """Return a Deployment as the platform creates it, with the strategy Recreate."""
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [entry or container()], "terminationGracePeriodSeconds": 1},
    }
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "strategy": {"type": "Recreate"},
            "template": template,
            **spec,
        },
    }


def condition(item: Manifest, name: str) -> Manifest:
    """Return a condition of an object's status, or {}."""
    conditions = (item.get("status") or {}).get("conditions") or []
    return next((entry for entry in conditions if entry.get("type") == name), {})


def is_ready(item: Manifest) -> bool:
    """Return whether a pod is ready."""
    return condition(item, "Ready").get("status") == "True"


def waiting(item: Manifest) -> Manifest:
    """Return the waiting state of the first container of a pod, or {}."""
    statuses = (item.get("status") or {}).get("containerStatuses") or [{}]
    return (statuses[0].get("state") or {}).get("waiting") or {}
