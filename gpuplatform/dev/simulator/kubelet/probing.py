"""Asks the probes of a container that is a local process, over the network.

Commands of probes are interpreted (see `scripts`), not executed.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import aiohttp

from gpuplatform.dev.simulator.kubelet.client import Manifest
from gpuplatform.dev.simulator.kubelet.probes import (
    LIVENESS,
    READINESS,
    STARTUP,
    HttpRequest,
    Probe,
    ProbeFailure,
    probes_of,
)
from gpuplatform.dev.simulator.kubelet.scripts import run_of

FIRST_PROBE_SECONDS: Final = 0.1
"""Interval of the startup and readiness probes until they succeed for the first time. It is
shorter than in a real kubelet, so that tests do not wait."""


class Prober:
    """The probes of one process, and their current results."""

    def __init__(
        self, container: Manifest, ports: Mapping[int, int], wake: Callable[[], None]
    ) -> None:
        """Create a prober. `wake` is called at each change of a result."""
        self._probes = probes_of(container)
        self._ports = ports
        self._wake = wake
        self.is_started = False
        self.is_ready = False
        self.failure: ProbeFailure | None = None
        """The latest failure beyond the threshold of a probe."""
        self.must_restart = asyncio.Event()
        """Event that is set when the container must be restarted."""

    async def run(self) -> None:
        """Ask the probes until the task is cancelled."""
        startup = self._probes.get(STARTUP)
        if startup is not None:
            await self._until_started(startup)
        self.is_started = True
        readiness, liveness = self._probes.get(READINESS), self._probes.get(LIVENESS)
        if readiness is None:
            self.is_ready = True
        self._wake()
        async with asyncio.TaskGroup() as group:
            if readiness is not None:
                group.create_task(self._watch_readiness(readiness))
            if liveness is not None:
                group.create_task(self._watch_liveness(liveness))

    async def _until_started(self, probe: Probe) -> None:
        await asyncio.sleep(probe.initial_delay_seconds)
        deadline = asyncio.get_running_loop().time() + probe.period_seconds * probe.failures
        while message := await ask(probe, self._ports):
            if asyncio.get_running_loop().time() > deadline:
                self._fail(probe, message)
                await asyncio.Event().wait()  # Until the restart cancels this task.
            await asyncio.sleep(FIRST_PROBE_SECONDS)

    async def _watch_readiness(self, probe: Probe) -> None:
        await asyncio.sleep(probe.initial_delay_seconds)
        successes = failures = 0
        was_ready = False
        while True:
            message = await ask(probe, self._ports)
            successes, failures = (0, failures + 1) if message else (successes + 1, 0)
            if successes == probe.successes:
                self.is_ready = was_ready = True
                self._wake()
            elif failures == probe.failures:
                self.is_ready = False
                self._fail(probe, message)
            await asyncio.sleep(probe.period_seconds if was_ready else FIRST_PROBE_SECONDS)

    async def _watch_liveness(self, probe: Probe) -> None:
        await asyncio.sleep(probe.initial_delay_seconds)
        failures = 0
        while True:
            message = await ask(probe, self._ports)
            failures = failures + 1 if message else 0
            if failures == probe.failures:
                self._fail(probe, message)
            await asyncio.sleep(probe.period_seconds)

    def _fail(self, probe: Probe, message: str) -> None:
        self.failure = ProbeFailure(probe.kind, f"{probe.title} failed: {message}")
        if self.failure.restarts:
            self.must_restart.set()
        self._wake()


async def ask(probe: Probe, ports: Mapping[int, int]) -> str:
    """Ask a probe once. Return the reason of its failure, or an empty string.

    `ports` maps the ports of the pod to local ports.
    """
    if probe.command:
        end = run_of(list(probe.command)).exit
        return "" if end is None or end.code == 0 else "\n"
    if probe.http is not None:
        return await request(probe.http, ports, probe.timeout_seconds)
    port = probe.port or 0
    refused = f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    if port not in ports:
        return refused
    try:
        async with asyncio.timeout(probe.timeout_seconds):
            _, writer = await asyncio.open_connection("127.0.0.1", ports[port])
    except (TimeoutError, OSError):
        return refused
    writer.close()
    return ""


async def request(http: HttpRequest, ports: Mapping[int, int], seconds: float) -> str:
    """Send an HTTP request. Return the reason of its failure, or an empty string."""
    if http.port not in ports:
        return f"dial tcp 127.0.0.1:{http.port}: connect: connection refused"
    url = f"{http.scheme}://127.0.0.1:{ports[http.port]}{http.path}"
    timeout = aiohttp.ClientTimeout(total=seconds)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=http.headers) as session,
            session.get(url, allow_redirects=False, ssl=False) as response,
        ):
            if 200 <= response.status < 400:
                return ""
            return f"HTTP probe failed with statuscode: {response.status}"
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        return f'Get "{url}": {error!r}'
