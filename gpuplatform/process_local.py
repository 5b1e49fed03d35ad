"""Values and threads of one process: created at their first use, never shared across a fork.

Connections, locks and threads do not survive a fork. What a module keeps for the whole process is
therefore held by a `ProcessLocal`, and a forked child creates its own.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Generic, ParamSpec, TypeVar
from weakref import WeakSet

ArgumentsT = ParamSpec("ArgumentsT")
ResultT = TypeVar("ResultT")
ValueT = TypeVar("ValueT")


class ProcessLocal(Generic[ValueT]):
    """Holds one value per process."""

    def __init__(self, create: Callable[[], ValueT]) -> None:
        """`create` returns the value; when it raises, the next `get` calls it again."""
        self._create = create
        self.reset()
        _HOLDERS.add(self)

    def get(self) -> ValueT:
        """Return the value of this process. Safe to call from any thread."""
        with self._lock:
            if not self._values:
                self._values.append(self._create())
            return self._values[0]

    def pop(self) -> ValueT | None:
        """Return the value if there is one, and forget it: the next `get` creates another."""
        with self._lock:
            return self._values.pop() if self._values else None

    def reset(self) -> None:
        """Forget value and lock: both may be in use by a thread that a forked child lacks."""
        self._lock = threading.Lock()
        self._values: list[ValueT] = []


class ProcessThreads:
    """A pool of threads per process, for calls that a caller waits for only a limited time."""

    def __init__(self, size: int, name: str) -> None:
        """Start up to `size` threads, each when it is first needed."""
        self._pool = ProcessLocal(partial(ThreadPoolExecutor, size, thread_name_prefix=name))

    def submit(
        self,
        call: Callable[ArgumentsT, ResultT],
        *args: ArgumentsT.args,
        **kwargs: ArgumentsT.kwargs,
    ) -> Future[ResultT]:
        """Queue the call for the next free thread."""
        return self._pool.get().submit(call, *args, **kwargs)


_HOLDERS: Final[WeakSet[ProcessLocal[Any]]] = WeakSet()


def _reset_in_child() -> None:
    for holder in _HOLDERS:
        holder.reset()


os.register_at_fork(after_in_child=_reset_in_child)
