"""A queue of keys with delays. At most one worker processes a key at a time."""

import asyncio


class WorkQueue:
    """A work queue that contains each key at most once.

    A key that is added while it is being processed is enqueued again when `done` is called.
    """

    def __init__(self) -> None:
        self._ready: asyncio.Queue[str] = asyncio.Queue()
        self._waiting: set[str] = set()
        self._busy: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def add(self, key: str) -> None:
        """Enqueue `key`."""
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._busy:
            self._ready.put_nowait(key)

    def add_after(self, key: str, seconds: float) -> None:
        """Enqueue `key` after `seconds`. This replaces an earlier delay."""
        self._cancel(key)
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(max(seconds, 0.0), self._fire, key)

    def forget(self, key: str) -> None:
        """Cancel the delay of `key`."""
        self._cancel(key)

    async def get(self) -> str:
        """Wait for the next key and return it. The worker must call `done` afterwards."""
        key = await self._ready.get()
        self._waiting.discard(key)
        self._busy.add(key)
        return key

    def done(self, key: str) -> None:
        """Record that `key` has been processed."""
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
