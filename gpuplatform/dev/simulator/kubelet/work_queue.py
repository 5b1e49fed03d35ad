"""Which pods to look at, now or later; each by one worker at a time."""

import asyncio


class WorkQueue:
    """Keys wait at most once each; one that comes back while it is worked on waits for that."""

    def __init__(self) -> None:
        self._ready: asyncio.Queue[str] = asyncio.Queue()
        self._waiting: set[str] = set()
        self._busy: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def add(self, key: str) -> None:
        """Ask for a look at `key` soon."""
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._busy:
            self._ready.put_nowait(key)

    def add_after(self, key: str, seconds: float) -> None:
        """Ask for a look at `key` in `seconds`; replaces what was asked before."""
        self._cancel(key)
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(max(seconds, 0.0), self._fire, key)

    def forget(self, key: str) -> None:
        """Ask no more for `key`."""
        self._cancel(key)

    async def get(self) -> str:
        """Return the next key; its worker calls `done`."""
        key = await self._ready.get()
        self._waiting.discard(key)
        self._busy.add(key)
        return key

    def done(self, key: str) -> None:
        """Say that `key` is worked on no more."""
        self._busy.discard(key)
        if key in self._waiting:
            self._ready.put_nowait(key)

    def _fire(self, key: str) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _cancel(self, key: str) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
