"""The base class of controllers: a work queue of keys, with back-off after errors."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import OrderedDict
from datetime import datetime

from gpuplatform import clock
from gpuplatform.dev.simulator.apiserver.errors import ApiError
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.store import Change, Entry, Key, Store
from gpuplatform.dev.simulator.apiserver.targets import Options
from gpuplatform.dev.simulator.apiserver.writes import Writer

log = logging.getLogger(__name__)

MANAGER = "kube-controller-manager"
_MAX_BACK_OFF = 30.0


class Controller(ABC):
    """The base class of controllers: a queue of keys, synced one by one without awaiting."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.store: Store = writer.store
        self._due: OrderedDict[Key, None] = OrderedDict()
        self._wake = asyncio.Event()
        self._failures: dict[Key, int] = {}
        self._adopts: set[Key] = set()

    @abstractmethod
    def observe(self, change: Change) -> None:
        """Enqueue the keys that `change` affects."""

    @abstractmethod
    def sync(self, key: Key) -> None:
        """Reconcile the object at `key`.

        Raises:
            ApiError: If a request fails. The key is retried with back-off.
        """

    def add(self, key: Key, *, adopts: bool = False) -> None:
        """Enqueue `key`. `adopts` marks the key as an owner that may have objects to adopt."""
        if adopts:
            self._adopts.add(key)
        self._due[key] = None
        self._wake.set()

    def pop_adoption(self, key: Key) -> bool:
        """Return whether `key` is marked as having objects to adopt, and clear the mark."""
        found = key in self._adopts
        self._adopts.discard(key)
        return found

    def add_at(self, key: Key, moment: datetime) -> None:
        """Enqueue `key` at the time `moment`."""
        self.add_after(key, (moment - clock.now()).total_seconds())

    def add_after(self, key: Key, seconds: float) -> None:
        """Enqueue `key` after `seconds`."""
        asyncio.get_running_loop().call_later(max(seconds, 0.0) + 0.01, self.add, key)

    async def run(self) -> None:
        """Sync keys until the task is cancelled. Requests can be served between two keys."""
        while True:
            while self._due:
                key, _ = self._due.popitem(last=False)
                self._try(key)
                await asyncio.sleep(0)
            self._wake.clear()
            await self._wake.wait()

    def _try(self, key: Key) -> None:
        try:
            self.sync(key)
        except ApiError as error:
            log.debug("%s: %s", key, error)
            self._retry_later(key)
        except Exception:  # An odd object must not end the controller.
            log.exception("%s: unexpected error", key)
            self._retry_later(key)
        else:
            self._failures.pop(key, None)

    def _retry_later(self, key: Key) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.add_after(key, min(0.1 * 2 ** min(failures, 10), _MAX_BACK_OFF))

    def set_status(self, entry: Entry, status: Manifest) -> None:
        """Write the status of an object if the status has changed."""
        options = Options(manager=MANAGER, subresource="status")
        self.writer.change(entry, lambda obj: obj.update(status=status), options)
