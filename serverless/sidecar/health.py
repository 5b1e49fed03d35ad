"""The HTTP server for the kubelet, with the paths `/livez`, `/readyz` and `/drain`."""

import hmac
from functools import partial
from typing import Final

from aiohttp import web

from serverless.sidecar.settings import Settings
from serverless.sidecar.worker import Worker

DRAIN_TOKEN_HEADER: Final = "X-Worker-Token"  # noqa: S105 - the name of a header


async def start_health(settings: Settings, worker: Worker) -> web.AppRunner:
    """Start the server. Call `cleanup()` of the returned runner to stop it."""
    application = web.Application(client_max_size=1024)
    application.router.add_get("/livez", _live)
    application.router.add_get("/readyz", partial(_ready, worker))
    application.router.add_get("/drain", partial(_drain, worker, settings.drain_token))
    runner = web.AppRunner(application, access_log=None, handle_signals=False)
    await runner.setup()
    host, port = settings.health_address
    await web.TCPSite(runner, host or None, port).start()
    return runner


async def _live(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _ready(worker: Worker, _: web.Request) -> web.Response:
    if worker.is_ready:
        return web.Response(text="ok\n")
    return web.Response(status=503, text="not ready\n")


async def _drain(worker: Worker, token: str, request: web.Request) -> web.Response:
    given = request.headers.get(DRAIN_TOKEN_HEADER, "")
    if not token or not hmac.compare_digest(given.encode(), token.encode()):
        return web.Response(status=403, text="forbidden\n")
    worker.drain()
    await worker.drained.wait()
    return web.Response(text="drained\n")
