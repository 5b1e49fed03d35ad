"""The HTTPS endpoint of the simulated kubelets, through which API servers get logs and exec.

It listens on loopback. The simulated API server is known by the token that both have. The API
server of a real control plane has no such token, so that every client is accepted.
"""

import asyncio
import contextlib
import hmac
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

from aiohttp import WSMsgType, web

from gpuplatform.dev.simulator.kubelet.certificate import server_context
from gpuplatform.dev.simulator.kubelet.logs import (
    LogQuery,
    NoLogError,
    Run,
    excerpt,
    log_of,
    run_of,
)
from gpuplatform.dev.simulator.kubelet.scripts import run_of as run_of_command
from gpuplatform.dev.simulator.kubelet.statuses import container_statuses, is_running

Manifest: TypeAlias = dict[str, Any]

HOST: Final = "127.0.0.1"
WEB_SOCKETS: Final = "ExtendWebSocketsToKubelet"
"""Declared feature of nodes. The API server then forwards WebSockets instead of SPDY."""
PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
FOLLOW_SECONDS: Final = 0.2
STDIN, STDOUT, ERROR, CLOSE = 0, 1, 3, 255
"""The channels of a WebSocket: the first byte of each message."""

Find: TypeAlias = Callable[[str, str], Manifest | None]
"""Returns the pod of a namespace and name, or `None` if it is not on these nodes."""
LogFile: TypeAlias = Callable[[str, str, int], Path | None]
"""Returns the log file of a process by the UID of its pod, its container and its restarts."""


class Endpoint:
    """The HTTPS server. `port` is 0 until it has started."""

    def __init__(self, find: Find, log_file: LogFile, authorization: str = "") -> None:
        """Accept only this `Authorization`, or every client if it is empty."""
        self._authorization = authorization
        self._find = find
        self._log_file = log_file
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self, name: str) -> None:
        """Listen on a free port of loopback, with a certificate for `name`."""
        application = web.Application(middlewares=[self._check])
        application.add_routes(
            [
                web.get("/healthz", _healthy),
                web.get("/containerLogs/{namespace}/{pod}/{container}", self._send_log),
                web.get("/exec/{namespace}/{pod}/{container}", self._execute),
                web.get("/exec/{namespace}/{pod}/{uid}/{container}", self._execute),
            ]
        )
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        context = server_context(name, bytes(map(int, HOST.split("."))))
        await web.TCPSite(self._runner, HOST, 0, ssl_context=context).start()
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Close all connections."""
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _check(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        offered = request.headers.get("Authorization", "")
        if self._authorization and not hmac.compare_digest(
            offered.encode(), self._authorization.encode()
        ):
            raise web.HTTPUnauthorized(text="Unauthorized")
        return await handler(request)

    def _pod(self, request: web.Request) -> Manifest:
        namespace, name = request.match_info["namespace"], request.match_info["pod"]
        pod = self._find(namespace, name)
        if pod is None:
            raise web.HTTPNotFound(text=f'pod "{name}" not found\n')
        return pod

    # Logs

    async def _send_log(self, request: web.Request) -> web.StreamResponse:
        pod, name = self._pod(request), request.match_info["container"]
        query = LogQuery.of(request.query)
        try:
            run = run_of(pod, name, is_previous=query.is_previous)
        except NoLogError as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        log = self._read(pod, name, run)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionResetError):  # The client has disconnected.
            await response.write(excerpt(log, run, query))
            if query.is_followed and run.is_running:
                await self._follow(request, response, len(log))
        return response

    async def _follow(self, request: web.Request, response: web.StreamResponse, sent: int) -> None:
        """Send the additions to a log until the run of the container has ended."""
        name = request.match_info["container"]
        pod = self._pod(request)
        first = run_of(pod, name, is_previous=False)
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            current = self._find(request.match_info["namespace"], request.match_info["pod"])
            if current is None or current["metadata"]["uid"] != pod["metadata"]["uid"]:
                return
            run = run_of(current, name, is_previous=False)
            if run.number != first.number:
                return
            log = self._read(current, name, run)
            await response.write(log[sent:])
            sent = len(log)
            if not run.is_running:
                return

    def _read(self, pod: Manifest, name: str, run: Run) -> bytes:
        path = self._log_file(pod["metadata"]["uid"], name, run.number)
        return log_of(pod, name, run, path)

    # Exec

    async def _execute(self, request: web.Request) -> web.StreamResponse:
        pod, name = self._pod(request), request.match_info["container"]
        status = container_statuses(pod).get(name)
        if status is None or not is_running(status):
            raise web.HTTPInternalServerError(text=f'container not found ("{name}")')
        response = web.WebSocketResponse(protocols=PROTOCOLS)
        await response.prepare(request)
        await _run_command(response, request.query.getall("command", []))
        await response.close()
        return response


async def _run_command(socket: web.WebSocketResponse, command: list[str]) -> None:
    """Interpret a command, and send its output and its end. `cat` returns its input."""
    if command == ["cat"]:
        await _return_input(socket)
        await _send_end(socket, 0)
        return
    run = run_of_command(command)
    await socket.send_bytes(bytes([STDOUT]) + run.output.encode())
    if not run.is_known:
        program = command[0] if command else ""
        await _send(socket, _failure(f'exec: "{program}": executable file not found in $PATH'))
        return
    if run.exit is None:
        await _ignore_input(socket)
        return
    try:
        async with asyncio.timeout(run.exit.after_seconds):
            await _ignore_input(socket)
    except TimeoutError:
        await _send_end(socket, run.exit.code)


async def _return_input(socket: web.WebSocketResponse) -> None:
    async for message in socket:
        data = message.data if message.type is WSMsgType.BINARY else b""
        if data[:1] == bytes([CLOSE]):
            return
        if data[:1] == bytes([STDIN]):
            await socket.send_bytes(bytes([STDOUT]) + data[1:])


async def _ignore_input(socket: web.WebSocketResponse) -> None:
    async for _ in socket:
        pass


async def _send_end(socket: web.WebSocketResponse, code: int) -> None:
    if code == 0:
        await _send(socket, {"metadata": {}, "status": "Success"})
        return
    causes = [{"reason": "ExitCode", "message": str(code)}]
    status = _failure(f"command terminated with exit code {code}")
    await _send(socket, {**status, "reason": "NonZeroExitCode", "details": {"causes": causes}})


async def _send(socket: web.WebSocketResponse, status: Manifest) -> None:
    await socket.send_bytes(bytes([ERROR]) + json.dumps(status).encode())


def _failure(message: str) -> Manifest:
    return {
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "InternalError",
        "code": 500,
    }


async def _healthy(_request: web.Request) -> web.Response:
    return web.Response(text="ok")
