"""The web server of containers with the image `ECHO_IMAGE`, which responds with the request.

The addresses of simulated pods are not reachable, so it listens on a free local port. The
annotation `LOCAL_ADDRESS` of the pod contains the address `127.0.0.1:PORT`. The servers of all
pods run in this process.
"""

import asyncio
import contextlib
import json
import logging

from gpuplatform.dev.simulator.kubelet.behaviour import ECHO_IMAGE
from gpuplatform.dev.simulator.kubelet.client import ApiClient, Manifest
from gpuplatform.dev.simulator.kubelet.statuses import container_statuses, is_running
from gpuplatform.kube.errors import ClusterError

log = logging.getLogger(__name__)

LOCAL_ADDRESS = "simulator.lokiwager.io/local-address"
MAX_HEAD_BYTES = 32 * 1024
MAX_BODY_BYTES = 1024 * 1024
REQUEST_SECONDS = 10.0


def runs_echo(pod: Manifest) -> bool:
    """Return whether a pod has a running container of `ECHO_IMAGE`."""
    images = {entry["name"]: entry.get("image") for entry in pod["spec"]["containers"]}
    return any(
        images[name] == ECHO_IMAGE and is_running(status)
        for name, status in container_statuses(pod).items()
    )


class EchoServers:
    """The web servers of all pods with `ECHO_IMAGE`."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._servers: dict[str, asyncio.Server] = {}

    async def sync(self, pod: Manifest) -> None:
        """Start or stop the server of a pod according to its status."""
        uid = pod["metadata"]["uid"]
        if not runs_echo(pod):
            self.stop(uid)
        elif uid not in self._servers:
            await self._start(uid, pod)

    def stop(self, uid: str) -> None:
        """Stop the server of a pod, if it has one."""
        server = self._servers.pop(uid, None)
        if server is not None:
            server.close()

    def stop_all(self) -> None:
        """Stop every server."""
        for uid in list(self._servers):
            self.stop(uid)

    async def _start(self, uid: str, pod: Manifest) -> None:
        metadata = pod["metadata"]
        name = f"{metadata['namespace']}/{metadata['name']}"
        server = await asyncio.start_server(
            lambda reader, writer: _handle(name, reader, writer),
            "127.0.0.1",
            limit=MAX_HEAD_BYTES,
        )
        port = server.sockets[0].getsockname()[1]
        annotations = {LOCAL_ADDRESS: f"127.0.0.1:{port}"}
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        patch = {"metadata": {"uid": uid, "annotations": annotations}}
        try:
            await self._client.merge_patch(path, patch)
        except ClusterError:
            server.close()
            raise
        self._servers[uid] = server


async def _handle(pod: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            status, answer = await _reply(pod, reader)
            body = json.dumps(answer, indent=1).encode() + b"\n"
            head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
            head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            writer.write(head.encode() + body)
            await writer.drain()
    except (TimeoutError, ConnectionError, asyncio.IncompleteReadError) as error:
        log.debug("echo of %s: %s", pod, error)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def _reply(pod: str, reader: asyncio.StreamReader) -> tuple[str, Manifest]:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        request, *lines = head.strip().split("\r\n")
        method, path, _version = request.split(" ")
        headers = dict(line.split(": ", 1) for line in lines)
        lengths = [value for name, value in headers.items() if name.lower() == "content-length"]
        length = int(lengths[0]) if lengths else 0
    except (ValueError, asyncio.LimitOverrunError):
        return "400 Bad Request", {"error": "not an HTTP request"}
    if not 0 <= length <= MAX_BODY_BYTES:
        return "413 Content Too Large", {"error": f"at most {MAX_BODY_BYTES} bytes"}
    body = (await reader.readexactly(length)).decode("utf-8", "replace")
    echo = {"pod": pod, "method": method, "path": path, "headers": headers, "body": body}
    return "200 OK", echo
