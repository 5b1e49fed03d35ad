"""The faults of `x9`: kills of processes, and changes of the queue."""

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from nats.js.client import JetStreamContext

from serverless.queue.errors import QueueError
from serverless.queue.names import INVOCATIONS, consumer_name, invocation_subject
from tests.acceptance.platform import RunningPlatform

VICTIMS: Final = ("sidecar", "activator", "results", "nats")
PAUSE_SECONDS: Final = 3.0
"""Seconds between two kills; a killed process must start in this time."""
MEDDLE_EVERY: Final = 12
"""Number of kills between two changes of the queue."""
LOOK_SECONDS: Final = 0.3
_WORKER: Final = b"SERVERLESS_WORKER_NAME="


class Killer:
    """Kills processes inside of its context, and workers of certain invocations.

    Args:
        platform: the platform whose processes are killed.
        deadly: invocations whose first worker is killed during its work.
        doomed: a function whose workers are all killed.
    """

    def __init__(self, platform: RunningPlatform, deadly: Sequence[str], doomed: str) -> None:
        self._platform = platform
        self._deadly = list(deadly)
        self._doomed = doomed
        self._random = random.Random(9)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._victims: set[str] = set()
        self.kills: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    @property
    def fewest(self) -> int:
        """The minimum number of kills of a victim."""
        return min(self.kills[name] for name in VICTIMS)

    def words(self) -> str:
        """Return the number of kills of each victim."""
        return ", ".join(f"{name} {number}" for name, number in sorted(self.kills.items()))

    def kill(self) -> None:
        """Kill one of the victims with the fewest kills; sometimes change the queue."""
        name = self._random.choice([one for one in VICTIMS if self.kills[one] == self.fewest])
        if name == "sidecar":
            self.kills[name] += self._kill_a_sidecar()
        else:
            self._platform.kill(name)
            self._platform.start(name)
            self.kills[name] += 1
        if self.kills.total() % MEDDLE_EVERY == 0:
            self._meddle()

    def _kill_a_sidecar(self, worker: str = "") -> int:
        found = [pid for pid, name in self._sidecars() if worker in {"", name}]
        if not found:
            return 0
        try:
            os.kill(self._random.choice(found), signal.SIGKILL)
        except ProcessLookupError:
            return 0
        return 1

    def _sidecars(self) -> list[tuple[int, str]]:
        pids = _children(self._platform.pid_of("kubelet"))
        found = [pid for pid in pids if b"serverless.sidecar" in _read(pid, "cmdline")]
        return [(pid, _worker_of(pid)) for pid in found]

    def _follow(self) -> None:
        """Kill the workers of deadly and doomed invocations as soon as these run."""
        while not self._over.wait(LOOK_SECONDS):
            rows = self._platform.sql(
                "SELECT i.invocation_id, i.worker, f.request_id FROM serverless_invocation i"
                " JOIN serverless_function f ON f.id = i.function_id"
                " WHERE i.state = 'Running' AND (i.invocation_id = ANY(%s) OR f.request_id = %s)",
                self._deadly,
                self._doomed,
            )
            for worker in {worker for name, worker, of in rows if self._is_next(name, of)}:
                self.kills["worker at work"] += self._kill_a_sidecar(worker)

    def _is_next(self, name: str, function: str) -> bool:
        """Return whether to kill the worker of an invocation; once for a deadly one."""
        is_next = function == self._doomed or name not in self._victims
        self._victims.add(name)
        return is_next

    def _meddle(self) -> None:
        """Delete the consumer of a function, and publish an invalid message for another one."""
        rows = self._platform.sql(
            "SELECT t.name, f.id FROM serverless_function f JOIN tenancy_tenant t"
            " ON t.id = f.tenant_id WHERE f.request_id LIKE 'x9-fn-%%' ORDER BY f.id"
        )
        _, without = self._random.choice(rows)
        subject = invocation_subject(*self._random.choice(rows))

        async def meddle(js: JetStreamContext) -> None:
            await js.publish(subject, b"no invocation")
            await js.delete_consumer(INVOCATIONS, consumer_name(without))

        with closing(self._platform.queue()) as queue:
            try:
                queue.call(meddle)
            except QueueError:
                return
        self.kills["consumer"] += 1


def _children(pid: int) -> list[int]:
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for one in lists for child in one.read_text().split()]


def _worker_of(pid: int) -> str:
    entries = _read(pid, "environ").split(b"\0")
    return next((one.removeprefix(_WORKER).decode() for one in entries if _WORKER in one), "")


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
