"""Kills groups of worker processes repeatedly while they have work."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from tests.acceptance.platform import START_SECONDS, RunningPlatform


class Killer:
    """Kills groups after a number of seconds of work and starts them again.

    `done` returns the number of completed items. A group is not killed before it has completed
    `a_life` more, because a busy machine may complete none within the seconds.
    """

    def __init__(
        self,
        platform: RunningPlatform,
        victims: Sequence[str],
        *,
        every: float = 2.0,
        done: Callable[[], int] = lambda: 0,
        a_life: int = 0,
    ) -> None:
        self._platform = platform
        self._victims = victims
        self._every = every
        self._done = done
        self._a_life = a_life
        self._over = threading.Event()
        self.kills = 0

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Kill groups during the block; all groups run afterwards."""
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _run(self) -> None:
        before = self._done()
        while not self._over.wait(self._every):
            while self._done() < before + self._a_life and not self._over.wait(0.1):
                pass
            for name in self._victims:
                self._platform.kill(name)
                self.kills += 1
            [(now,)] = self._platform.sql("SELECT now()")
            before = self._done()
            for name in self._victims:
                self._platform.start(name)
            self._wait_for_life(now)

    def _wait_for_life(self, since: datetime) -> None:
        """Wait until all groups work: on a busy machine a start takes longer than the interval."""
        until = time.monotonic() + START_SECONDS
        seen = (
            "SELECT count(*) FROM reconciliation_processheartbeat"
            " WHERE part = ANY(%s) AND seen_at > %s"
        )
        while time.monotonic() < until and not self._over.wait(0.1):
            if self._platform.sql(seen, list(self._victims), since) == [(len(self._victims),)]:
                return
