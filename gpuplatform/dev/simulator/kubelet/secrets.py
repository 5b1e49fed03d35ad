"""The reader of the Secrets and ConfigMaps of pods, with the messages of the kubelet."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gpuplatform.dev.simulator.kubelet.client import ApiClient, Manifest
from gpuplatform.dev.simulator.kubelet.statuses import (
    container_statuses,
    is_before_start,
    is_running,
)
from gpuplatform.kube.errors import ClusterRejected
from gpuplatform.kube.fields import items


@dataclass(frozen=True, slots=True)
class StartErrors:
    """The errors that prevent the start of containers, with the messages of the kubelet."""

    of_containers: Mapping[str, str]
    """Errors of variables, by container name."""
    of_volumes: str
    """Error of a volume, or an empty string."""


class SecretReader:
    """A reader without a cache, so that the next start of a container uses a change."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def read(self, kind: str, namespace: str, name: str) -> Mapping[str, bytes]:
        """Return the data of a Secret or ConfigMap. `kind` is the kind of the object.

        Raises:
            ClusterRejected: If the object does not exist. The message is the message of the
            kubelet. ClusterError: If the object cannot be read.
        """
        path = f"/api/v1/namespaces/{namespace}/{kind.lower()}s/{name}"
        try:
            found = await self._client.request("GET", path)
        except ClusterRejected as error:
            if error.status != 404:
                raise
            raise ClusterRejected(f'{kind.lower()} "{name}" not found', status=404) from error
        data = found.get("data") or {}
        if kind == "Secret":
            return {key: base64.b64decode(text or "") for key, text in data.items()}
        return {key: (text or "").encode() for key, text in data.items()}

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
        kind, field = ("Secret", "secretRef") if "secretRef" in source else _CONFIG_MAP
        reference = source.get(field) or {}
        try:
            return await self.read(kind, namespace, reference["name"])
        except ClusterRejected:
            if reference.get("optional"):
                return {}
            raise

    async def errors(self, pod: Manifest) -> StartErrors:
        """Return the errors that prevent the start of the containers of a pod.

        Raises:
            ClusterError: If a Secret or ConfigMap cannot be read.
        """
        return StartErrors(await self._config_errors(pod), await self._mount_error(pod))

    async def _config_errors(self, pod: Manifest) -> dict[str, str]:
        found = {}
        for container in _not_running(pod):
            try:
                await self.variables(pod, container)
            except ClusterRejected as error:
                found[container["name"]] = str(error)
        return found

    async def _mount_error(self, pod: Manifest) -> str:
        """Return the reason why a volume of a pod cannot be mounted, or an empty string."""
        namespace = pod["metadata"]["namespace"]
        for volume in items(pod, "spec", "volumes") if is_before_start(pod) else ():
            for source, (kind, name) in _VOLUME_KINDS.items():
                reference = volume.get(source) or {}
                if name not in reference or reference.get("optional"):
                    continue
                try:
                    await self.read(kind, namespace, reference[name])
                except ClusterRejected as error:
                    return f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}'
        return ""

    async def _value(self, namespace: str, kind: str, reference: Manifest) -> str:
        name, key = reference["name"], reference["key"]
        data = await self.read(kind, namespace, name)
        if key not in data:
            raise ClusterRejected(f"couldn't find key {key} in {kind} {namespace}/{name}")
        if b"\0" in data[key]:  # Environment variables cannot contain NUL bytes.
            raise ClusterRejected(f"key {key} in {kind} {namespace}/{name} holds a NUL byte")
        return data[key].decode("utf-8", "surrogateescape")


_CONFIG_MAP: Final = ("ConfigMap", "configMapRef")
_VOLUME_KINDS: Final = {"secret": ("Secret", "secretName"), "configMap": ("ConfigMap", "name")}
_KINDS: Final = {"secretKeyRef": "Secret", "configMapKeyRef": "ConfigMap"}


def _references(container: Manifest) -> Iterator[tuple[str, str, Manifest]]:
    """Yield the name of each variable, and the kind and the reference of its source."""
    for entry in container.get("env") or []:
        for field, reference in (entry.get("valueFrom") or {}).items():
            if field in _KINDS:
                yield entry["name"], _KINDS[field], reference


def _not_running(pod: Manifest) -> list[Manifest]:
    running = {name for name, status in container_statuses(pod).items() if is_running(status)}
    return [one for one in pod["spec"]["containers"] if one["name"] not in running]
