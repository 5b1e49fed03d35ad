"""The HTTP server for the kubelet: liveness, readiness and drain."""

import hmac
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from aiohttp import web

from serverless.sidecar.settings import Settings
from serverless.sidecar.worker import Worker

DRAIN_TOKEN_HEADER: Final = "X-Worker-Token"  # noqa: S105 - the name of a header

_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.Response]]


async def start_health(settings: Settings, worker: Worker) -> web.AppRunner:
    """Start the server; `cleanup()` of the returned runner stops it."""
    application = web.Application(client_max_size=1024)
    application.router.add_get("/livez", _live)
    application.router.add_get("/readyz", _ready(worker))
    application.router.add_get("/drain", _drain(worker, settings.drain_token))
    runner = web.AppRunner(application, access_log=None, handle_signals=False)
    await runner.setup()
    address = settings.health
    await web.TCPSite(runner, address.host or None, address.port).start()
    return runner


async def _live(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


def _ready(worker: Worker) -> _Handler:
    async def ready(_: web.Request) -> web.Response:
        if worker.is_ready:
            return web.Response(text="ok\n")
        return web.Response(status=503, text="not ready\n")

    return ready


def _drain(worker: Worker, token: str) -> _Handler:
    async def drain(request: web.Request) -> web.Response:
        given = request.headers.get(DRAIN_TOKEN_HEADER, "")
        if not token or not hmac.compare_digest(given.encode(), token.encode()):
            return web.Response(status=403, text="forbidden\n")
        worker.drain()
        await worker.drained.wait()
        return web.Response(text="drained\n")

    return drain
