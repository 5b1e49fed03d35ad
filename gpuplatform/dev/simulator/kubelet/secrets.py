"""The reader of the Secrets and ConfigMaps of pods, with the messages of the kubelet."""

import base64
from collections.abc import Iterator, Mapping
from typing import Final

from gpuplatform.dev.simulator.kubelet.client import ApiClient, Manifest
from gpuplatform.errors import ClusterRejected


class SecretReader:
    """A reader without a cache, so that the next start of a container uses a change."""

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

    async def read_config(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """Return the data of a ConfigMap.

        Raises:
            ClusterRejected: If the ConfigMap does not exist. The message is the message of the
            kubelet. ClusterError: If the ConfigMap cannot be read.
        """
        path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        try:
            found = await self._client.request("GET", path)
        except ClusterRejected as error:
            if error.status != 404:
                raise
            raise ClusterRejected(f'configmap "{name}" not found', status=404) from error
        return {key: text.encode() for key, text in (found.get("data") or {}).items()}

    async def variables(self, pod: Manifest, container: Manifest) -> dict[str, str]:
        """Return the environment variables with values from Secrets and ConfigMaps.

        Raises:
            ClusterRejected: If an object or key does not exist. The message is the message of the
            kubelet. ClusterError: If an object cannot be read.
        """
        namespace = pod["metadata"]["namespace"]
        found: dict[str, str] = {}
        for source in container.get("envFrom") or []:
            prefix = source.get("prefix") or ""
            for key, content in (await self._all(namespace, source)).items():
                found[f"{prefix}{key}"] = content.decode("utf-8", "surrogateescape")
        for name, kind, reference in _references(container):
            try:
                found[name] = await self._value(namespace, kind, reference)
            except ClusterRejected:
                if not reference.get("optional"):
                    raise
        return found

    async def _all(self, namespace: str, source: Manifest) -> Mapping[str, bytes]:
        """Return the data of an entry of `envFrom`."""
        reference = source.get("secretRef") or source.get("configMapRef") or {}
        read = self.read if "secretRef" in source else self.read_config
        try:
            return await read(namespace, reference["name"])
        except ClusterRejected:
            if reference.get("optional"):
                return {}
            raise

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

    async def _value(self, namespace: str, kind: str, reference: Manifest) -> str:
        name, key = reference["name"], reference["key"]
        data = await (self.read if kind == "Secret" else self.read_config)(namespace, name)
        if key not in data:
            raise ClusterRejected(f"couldn't find key {key} in {kind} {namespace}/{name}")
        if b"\0" in data[key]:  # Environment variables cannot contain NUL bytes.
            raise ClusterRejected(f"key {key} in {kind} {namespace}/{name} holds a NUL byte")
        return data[key].decode("utf-8", "surrogateescape")


_KINDS: Final = {"secretKeyRef": "Secret", "configMapKeyRef": "ConfigMap"}


def _references(container: Manifest) -> Iterator[tuple[str, str, Manifest]]:
    """Yield the name of each variable, and the kind and the reference of its source."""
    for entry in container.get("env") or []:
        for field, reference in (entry.get("valueFrom") or {}).items():
            if field in _KINDS:
                yield entry["name"], _KINDS[field], reference


def _not_running(pod: Manifest) -> list[Manifest]:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    running = {entry["name"] for entry in statuses if "running" in (entry.get("state") or {})}
    return [one for one in pod["spec"]["containers"] if one["name"] not in running]
