"""A queue of keys, with delays; one worker at a time for each key."""

import asyncio


class WorkQueue:
    """Each key waits at most once; a key that is added while it is processed waits for that."""

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
        """Enqueue `key` after `seconds`; replaces an earlier delay."""
        self._cancel(key)
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(max(seconds, 0.0), self._fire, key)

    def forget(self, key: str) -> None:
        """Cancel the delay of `key`."""
        self._cancel(key)

    async def get(self) -> str:
        """Return the next key; the worker calls `done` afterwards."""
        key = await self._ready.get()
        self._waiting.discard(key)
        self._busy.add(key)
        return key

    def done(self, key: str) -> None:
        """Record that `key` is processed."""
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
