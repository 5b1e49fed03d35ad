"""Requests that the API server forwards to the kubelet of a pod: logs and exec."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final, TypeAlias

import aiohttp
from aiohttp import WSMsgType, web

from gpuplatform.dev.simulator.apiserver import errors
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.store import Store
from gpuplatform.kube.fields import field, items, number, text

Socket: TypeAlias = web.WebSocketResponse | aiohttp.ClientWebSocketResponse

LOG, EXEC = "log", "exec"
"""The subresources of pods that are forwarded."""
_LOG_OPTIONS: Final = (
    *("follow", "previous", "sinceSeconds", "sinceTime"),
    *("timestamps", "tailLines", "limitBytes"),
)
_STREAMS: Final = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
_ADDRESSES: Final = ("Hostname", "InternalIP")
"""Types of node addresses, with the preferred one first."""
_CONNECT_SECONDS: Final = 5.0


class Kubelets:
    """The kubelets of the nodes in `store`."""

    def __init__(self, store: Store, token: str) -> None:
        self._store = store
        self._headers = {"Authorization": f"Bearer {token}"}

    async def log(self, request: web.Request, pod: Manifest) -> web.StreamResponse:
        """Return the log of a container of `pod`, which the query of the request selects.

        Raises:
            ApiError: 400 if the container or its log does not exist; 404 if the node does not
            exist; 422 if a number is negative; 500 if the kubelet does not respond.
        """
        for name in ("tailLines", "limitBytes"):
            _check_number(request.query, name)
        url = self._url(pod, "containerLogs", container_of(pod, request.query))
        options = {name: request.query[name] for name in _LOG_OPTIONS if name in request.query}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(url, params=options, headers=self._headers, ssl=False) as found,
            ):
                if found.status != 200:
                    raise _error(found.status, await found.text())
                response = web.StreamResponse(headers={"Content-Type": "text/plain"})
                await response.prepare(request)
                with contextlib.suppress(ConnectionResetError):  # The client has disconnected.
                    async for chunk in found.content.iter_any():
                        await response.write(chunk)
                return response
        except aiohttp.ClientConnectionError as error:
            raise errors.internal_error(OSError(f'Get "{url}": {error}')) from error

    async def exec(self, request: web.Request, pod: Manifest) -> web.StreamResponse:
        """Connect the WebSocket of a client with a command in a container of `pod`.

        Raises:
            ApiError: 400 if the query is incomplete; 404 if the node does not exist; 500 if the
            kubelet rejects the command; 501 if the client uses SPDY.
        """
        query = request.query
        streams = {to: "1" for name, to in _STREAMS.items() if query.get(name) in {"true", "1"}}
        if not streams.keys() - {"tty"}:
            raise errors.bad_request("you must specify at least 1 of stdin, stdout, stderr")
        commands = query.getall("command", [])
        if not commands:
            raise errors.bad_request("you must specify at least 1 command")
        url = self._url(pod, "exec", container_of(pod, query))
        if request.headers.get("Upgrade", "").lower() != "websocket":
            raise errors.not_simulated("exec without a WebSocket")
        offered = request.headers.get("Sec-WebSocket-Protocol", "")
        protocols = [name.strip() for name in offered.split(",")]
        params = [*streams.items(), *(("command", command) for command in commands)]
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.ws_connect(
                    url, params=params, protocols=protocols, headers=self._headers, ssl=False
                ) as kubelet,
            ):
                client = web.WebSocketResponse(protocols=[kubelet.protocol or ""])
                await client.prepare(request)
                await _connect(client, kubelet)
                return client
        except aiohttp.WSServerHandshakeError as error:
            message = f"unable to upgrade connection: {error.message}"
            raise errors.internal_error(OSError(message)) from error
        except aiohttp.ClientConnectionError as error:
            raise errors.internal_error(OSError(f'Post "{url}": {error}')) from error

    def _url(self, pod: Manifest, path: str, container: str) -> str:
        metadata, node = pod["metadata"], pod["spec"]["nodeName"]
        entry = self._store.get(("", "nodes", "", node))
        if entry is None:
            raise errors.ApiError(404, "NotFound", f'nodes "{node}" not found')
        addresses = {
            text(one, "type"): text(one, "address")
            for one in items(entry.object, "status", "addresses")
        }
        host = next((addresses[kind] for kind in _ADDRESSES if kind in addresses), "127.0.0.1")
        endpoints = field(entry.object, "status", "daemonEndpoints")
        port = number(endpoints, "kubeletEndpoint", "Port")
        place = f"{metadata['namespace']}/{metadata['name']}/{container}"
        return f"https://{host}:{port}/{path}/{place}"


def container_of(pod: Manifest, query: Mapping[str, str]) -> str:
    """Return the container that the query selects.

    Raises:
        ApiError: 400 if the container does not exist or must be named, or the pod has no node.
    """
    metadata, spec = pod["metadata"], pod["spec"]
    names = [container["name"] for container in spec["containers"]]
    name = query.get("container", "")
    if not name and len(names) > 1:
        known = " ".join(names)
        raise errors.bad_request(
            f"a container name must be specified for pod {metadata['name']}, choose one of:"
            f" [{known}]"
        )
    if name and name not in names:
        raise errors.bad_request(f"container {name} is not valid for pod {metadata['name']}")
    if not spec.get("nodeName"):
        raise errors.bad_request(f"pod {metadata['name']} does not have a host assigned")
    return name or str(names[0])


async def _connect(client: Socket, kubelet: Socket) -> None:
    """Copy messages in both directions until one side closes its connection."""
    tasks = [
        asyncio.create_task(_copy(client, kubelet)),
        asyncio.create_task(_copy(kubelet, client)),
    ]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await client.close()


async def _copy(source: Socket, target: Socket) -> None:
    async for message in source:
        if message.type is WSMsgType.BINARY:
            await target.send_bytes(message.data)
        elif message.type is WSMsgType.TEXT:
            await target.send_str(message.data)


def _error(status: int, message: str) -> errors.ApiError:
    if status == 400:
        return errors.bad_request(message)
    if status == 404:
        return errors.ApiError(404, "NotFound", message.strip())
    return errors.internal_error(OSError(message))


def _check_number(query: Mapping[str, str], name: str) -> None:
    found = query.get(name, "")
    if found and not found.lstrip("-").isdecimal():
        raise errors.bad_request(f"{name} is not a number: {found}")
    if found.startswith("-"):
        field_error = errors.invalid_value(name, int(found), "must be greater than or equal to 0")
        raise errors.invalid("", "PodLogOptions", "", [field_error])
