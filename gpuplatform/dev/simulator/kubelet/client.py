"""An asynchronous Kubernetes client for raw JSON.

One process simulates hundreds of kubelets with many concurrent requests, for which the synchronous
client of `gpuplatform.kube` is not suitable. Failed requests raise `ClusterError`.
"""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
import yaml

from gpuplatform.kube.errors import (
    ClusterConflict,
    ClusterForbidden,
    ClusterGone,
    ClusterRejected,
    ClusterUnavailable,
)

Manifest: TypeAlias = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
REQUEST_SECONDS = 15.0
WATCH_SECONDS = 120
MAX_LINE_BYTES = 8 * 1024 * 1024
CONNECTIONS = 32


@dataclass(frozen=True, slots=True)
class Access:
    """The address of an API server and the credentials of the client."""

    server: str
    headers: dict[str, str]
    tls: ssl.SSLContext | bool

    @classmethod
    def from_kubeconfig(cls, path: Path) -> "Access":
        """Read the current context of a kubeconfig.

        The credentials can be a token, a client certificate or nothing.
        """
        config = yaml.load(path.read_text("utf-8"), Loader=yaml.CSafeLoader)
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config.get("users") or [], context.get("user", "")).get("user") or {}
        headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        server = str(cluster["server"]).rstrip("/")
        return cls(server, headers, _tls(cluster, user) if server.startswith("https") else False)


def _named(entries: list[Manifest], name: str) -> Manifest:
    return next((entry for entry in entries if entry["name"] == name), {})


def _tls(cluster: Manifest, user: Manifest) -> ssl.SSLContext:
    data = cluster.get("certificate-authority-data")
    context = ssl.create_default_context(
        cafile=cluster.get("certificate-authority"),
        cadata=base64.b64decode(data).decode() if data else None,
    )
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if "client-certificate" in user:
        context.load_cert_chain(user["client-certificate"], user["client-key"])
    return context


class ApiClient:
    """A client that sends requests with a deadline. A failed request raises `ClusterError`."""

    def __init__(self, access: Access) -> None:
        is_simulated = not access.server.startswith("https")
        self.shared = access.headers.get("Authorization", "") if is_simulated else ""
        """The `Authorization` that the simulated API server sends to kubelets, otherwise empty."""
        self._session = aiohttp.ClientSession(
            base_url=access.server + "/",
            headers=access.headers,
            connector=aiohttp.TCPConnector(limit=CONNECTIONS, ssl=access.tls),
            read_bufsize=256 * 1024,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Manifest | None = None,
        params: dict[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Manifest:
        """Send one request and return the object of the response."""
        try:
            async with self._session.request(
                method,
                path.lstrip("/"),
                params=params,
                data=None if body is None else json.dumps(body, ensure_ascii=False).encode(),
                headers={"Content-Type": content_type},
                timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
            ) as response:
                answer = await response.read()
                _check(response.status, answer)
                return _object(answer)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ClusterUnavailable(f"The API server does not respond: {error!r}.") from error

    async def merge_patch(self, path: str, patch: Manifest) -> Manifest:
        """Send a JSON merge patch."""
        return await self.request("PATCH", path, body=patch, content_type=MERGE_PATCH)

    async def watch(
        self, path: str, *, resource_version: str, field_selector: str = ""
    ) -> AsyncIterator[tuple[str, Manifest]]:
        """Yield (type, object) of each watch event until the watch ends or nothing arrives."""
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        if field_selector:
            params["fieldSelector"] = field_selector
        timeout = aiohttp.ClientTimeout(total=None, sock_read=WATCH_SECONDS + 15)
        try:
            async with self._session.get(
                path.lstrip("/"), params=params, timeout=timeout
            ) as response:
                if response.status != 200:
                    _check(response.status, await response.read())
                async for line in _lines(response.content):
                    event = _object(line)
                    if event["type"] == "ERROR":
                        _raise(int(event["object"].get("code", 500)), event["object"])
                    yield event["type"], event["object"]
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ClusterUnavailable(f"The watch was interrupted: {error!r}.") from error


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    pending = bytearray()
    async for chunk in content.iter_any():
        pending += chunk
        if len(pending) > MAX_LINE_BYTES:
            raise ClusterUnavailable("The watch response contains a line that is too long.")
        *complete, rest = pending.split(b"\n")
        pending = rest
        for line in complete:
            if line.strip():
                yield bytes(line)


def _object(answer: bytes) -> Manifest:
    try:
        value = json.loads(answer)
    except ValueError as error:
        raise ClusterUnavailable("The response of the API server is not JSON.") from error
    if not isinstance(value, dict):
        raise ClusterUnavailable("The response of the API server is not a JSON object.")
    return value


def _check(status: int, answer: bytes) -> None:
    if status < 400:
        return
    try:
        body = _object(answer)
    except ClusterUnavailable:
        body = {"message": answer[:200].decode("utf-8", "replace")}
    _raise(status, body)


def _raise(status: int, body: Manifest) -> None:
    message = str(body.get("message", "no message"))
    reason = str(body.get("reason", ""))
    match status:
        case 409:
            raise ClusterConflict(message, reason=reason, status=status)
        case 410:
            raise ClusterGone(message, reason=reason, status=status)
        case 401 | 403:
            raise ClusterForbidden(message, reason=reason, status=status)
        case 429 | 500 | 502 | 503 | 504:
            raise ClusterUnavailable(message, reason=reason, status=status)
        case _:
            raise ClusterRejected(message, reason=reason, status=status)


async def pause(seconds: float, stop: asyncio.Event) -> None:
    """Wait until `seconds` have passed or `stop` is set."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
