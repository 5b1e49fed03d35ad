"""An informer, which lists and watches one kind."""

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from gpuplatform.dev.simulator.isolation import isolated
from gpuplatform.dev.simulator.kubelet.client import ApiClient, Manifest, pause
from gpuplatform.kube.errors import ClusterError, ClusterGone, ClusterUnavailable

log = logging.getLogger(__name__)

PAGE = 500
RETRY_SECONDS = (0.2, 5.0)


@dataclass(frozen=True, slots=True)
class Listener:
    """The callbacks of an informer. A list replaces all earlier state."""

    on_list: Callable[[list[Manifest]], None]
    on_event: Callable[[str, Manifest], None]


class Informer:
    """A client that lists objects, watches for changes, and restarts a watch that has ended.

    It lists again after the status 410 and after a lost connection, because the server may have
    been recreated with another history.
    """

    def __init__(
        self, client: ApiClient, path: str, listener: Listener, *, field_selector: str = ""
    ) -> None:
        self._client = client
        self._path = path
        self._listener = listener
        self._field_selector = field_selector
        self.synced = asyncio.Event()
        """Event that is set after the first complete list."""

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set."""
        delay, longest = RETRY_SECONDS
        version = ""
        while not stop.is_set():
            try:
                version = version or await self._list()
                async for event, item in self._client.watch(
                    self._path, resource_version=version, field_selector=self._field_selector
                ):
                    version = item["metadata"]["resourceVersion"]
                    delay = RETRY_SECONDS[0]
                    if event != "BOOKMARK":
                        with isolated(log, self._path):
                            self._listener.on_event(event, item)
            except (ClusterGone, ClusterUnavailable) as error:
                log.debug("%s: %s", self._path, error)
                version = ""
                await pause(delay * random.uniform(0.8, 1.2), stop)  # noqa: S311 - spreads load
                delay = min(delay * 2, longest)
            except ClusterError as error:
                # A server that is starting can reject requests temporarily.
                log.warning("%s: %s", self._path, error)
                version = ""
                await pause(longest, stop)

    async def _list(self) -> str:
        items: list[Manifest] = []
        params = {"limit": str(PAGE)}
        if self._field_selector:
            params["fieldSelector"] = self._field_selector
        while True:
            page = await self._client.request("GET", self._path, params=params)
            items += page["items"]
            following = page["metadata"].get("continue")
            if not following:
                break
            params["continue"] = following
        with isolated(log, self._path):
            self._listener.on_list(items)
        self.synced.set()
        return str(page["metadata"]["resourceVersion"])
