"""The reader of the Secrets of pods, with the messages of the kubelet for missing Secrets."""

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from gpuplatform.dev.simulator.kubelet.client import ApiClient, Manifest
from gpuplatform.errors import ClusterRejected


class SecretReader:
    """A reader of Secrets without a cache, so that the next start of a container uses a change."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def read(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """Return the data of a Secret.

        Raises:
            ClusterRejected: If the Secret does not exist. The message is the message of the
            kubelet. ClusterError: If the Secret cannot be read.
        """
        path = f"/api/v1/namespaces/{namespace}/secrets/{name}"
        try:
            secret = await self._client.request("GET", path)
        except ClusterRejected as error:
            if error.status != 404:
                raise
            raise ClusterRejected(f'secret "{name}" not found', status=404) from error
        data = secret.get("data") or {}
        return {key: base64.b64decode(text or "") for key, text in data.items()}

    async def variables(self, pod: Manifest, container: Manifest) -> dict[str, str]:
        """Return the environment variables of a container that have values from Secrets.

        Raises:
            ClusterRejected: If a Secret or key does not exist. The message is the message of the
            kubelet. ClusterError: If a Secret cannot be read.
        """
        namespace = pod["metadata"]["namespace"]
        found = {}
        for name, reference in _references(container):
            try:
                found[name] = await self._value(namespace, reference)
            except ClusterRejected:
                if not reference.get("optional"):
                    raise
        return found

    async def config_errors(self, pod: Manifest) -> dict[str, str]:
        """Return the errors that prevent the start of containers, by container name.

        Raises:
            ClusterError: If a Secret cannot be read.
        """
        found = {}
        for container in _not_running(pod):
            try:
                await self.variables(pod, container)
            except ClusterRejected as error:
                found[container["name"]] = str(error)
        return found

    async def _value(self, namespace: str, reference: Manifest) -> str:
        name, key = reference["name"], reference["key"]
        data = await self.read(namespace, name)
        if key not in data:
            raise ClusterRejected(f"couldn't find key {key} in Secret {namespace}/{name}")
        if b"\0" in data[key]:  # Environment variables cannot contain NUL bytes.
            raise ClusterRejected(f"key {key} in Secret {namespace}/{name} holds a NUL byte")
        return data[key].decode("utf-8", "surrogateescape")


def _references(container: Manifest) -> Iterator[tuple[str, Manifest]]:
    for entry in container.get("env") or []:
        reference: Any = (entry.get("valueFrom") or {}).get("secretKeyRef")
        if reference is not None:
            yield entry["name"], reference


def _not_running(pod: Manifest) -> list[Manifest]:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    running = {entry["name"] for entry in statuses if "running" in (entry.get("state") or {})}
    return [one for one in pod["spec"]["containers"] if one["name"] not in running]
