"""The server process: storage, initial objects, HTTP server and controllers."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from aiohttp import web

from gpuplatform.dev.simulator.apiserver.controllers import Controllers
from gpuplatform.dev.simulator.apiserver.dispatch import ApiHandler
from gpuplatform.dev.simulator.apiserver.guard import kept_token
from gpuplatform.dev.simulator.apiserver.journal import Journal
from gpuplatform.dev.simulator.apiserver.resources import Registry
from gpuplatform.dev.simulator.apiserver.store import Store
from gpuplatform.dev.simulator.apiserver.targets import Options, Target
from gpuplatform.dev.simulator.apiserver.writes import Writer

HOST = "127.0.0.1"
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_STOP_SECONDS = 0.5


@contextlib.asynccontextmanager
async def running(state_dir: Path | None, port: int) -> AsyncIterator[tuple[int, str]]:
    """Run the server until the context exits, and yield the port and the token of clients.

    Without `state_dir` the objects are only in memory.

    Raises:
        BlockingIOError: If another server uses `state_dir`.
        OSError: If the port is in use.
    """
    journal = Journal(state_dir) if state_dir else None
    try:
        token = kept_token(state_dir)
        writer = Writer(Store(journal), Registry())
        controllers = Controllers(writer)
        _create_namespaces(writer)
        runner = web.AppRunner(
            ApiHandler(writer, token).application(),
            access_log=None,
            shutdown_timeout=_STOP_SECONDS,
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, HOST, port).start()
            async with controllers.running():
                yield int(runner.addresses[0][1]), token
        finally:
            await runner.cleanup()
    finally:
        if journal:
            journal.close()


def _create_namespaces(writer: Writer) -> None:
    kind = writer.registry.require("namespaces")
    for name in _NAMESPACES:
        target = Target(kind, "", name)
        if writer.store.get(target.key) is None:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            writer.create(target, body, Options(manager="kube-apiserver"))


def write_kubeconfig(path: Path, port: int, token: str) -> None:
    """Write a kubeconfig atomically. Only its owner can read the file."""
    name = "simulator"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": f"http://{HOST}:{port}/{token}"}}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with open(fresh, "w", opener=lambda p, flags: os.open(p, flags, 0o600)) as file:
        json.dump(config, file, indent=1)
    fresh.replace(path)


async def serve(
    port: int, state_dir: Path | None, kubeconfig: Path, report: Callable[[str], object]
) -> None:
    """Run the server until SIGTERM or SIGINT. `report` is called with a line for the log."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running(state_dir, port) as (bound, token):
        write_kubeconfig(kubeconfig, bound, token)
        report(
            f"The simulated cluster listens on http://{HOST}:{bound} (kubeconfig {kubeconfig}).\n"
        )
        await stop.wait()
