"""The controllers and the scheduler. They run in the same process and are triggered by commits."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from gpuplatform.dev.simulator.apiserver.controllers.definitions import Definitions
from gpuplatform.dev.simulator.apiserver.controllers.deployments import Deployments
from gpuplatform.dev.simulator.apiserver.controllers.endpoints import Endpoints
from gpuplatform.dev.simulator.apiserver.controllers.events import expire_events
from gpuplatform.dev.simulator.apiserver.controllers.garbage import GarbageCollector
from gpuplatform.dev.simulator.apiserver.controllers.jobs import Jobs
from gpuplatform.dev.simulator.apiserver.controllers.loop import Controller
from gpuplatform.dev.simulator.apiserver.controllers.namespaces import Namespaces
from gpuplatform.dev.simulator.apiserver.controllers.nodes import Nodes
from gpuplatform.dev.simulator.apiserver.controllers.pod_garbage import PodGarbageCollector
from gpuplatform.dev.simulator.apiserver.controllers.replicasets import ReplicaSets
from gpuplatform.dev.simulator.apiserver.controllers.scheduler import Scheduler
from gpuplatform.dev.simulator.apiserver.store import Change
from gpuplatform.dev.simulator.apiserver.writes import Writer
from gpuplatform.dev.simulator.isolation import isolated

log = logging.getLogger(__name__)


class Controllers:
    """All controllers of a server."""

    def __init__(self, writer: Writer) -> None:
        """Register listeners for commits. `running` starts the controllers."""
        self._writer = writer
        kinds: tuple[type[Controller], ...] = (
            *(Definitions, Namespaces, Deployments, ReplicaSets, Jobs),
            *(Endpoints, Nodes, Scheduler, GarbageCollector, PodGarbageCollector),
        )
        self._all = [kind(writer) for kind in kinds]
        for controller in self._all:
            writer.store.listen(controller.observe)
            for entry in writer.store.entries():
                with isolated(log, entry.key):  # The stored state can be odd.
                    controller.observe(Change("MODIFIED", entry, None))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the controllers until the context exits."""
        tasks = [asyncio.create_task(controller.run()) for controller in self._all]
        tasks.append(asyncio.create_task(expire_events(self._writer)))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
