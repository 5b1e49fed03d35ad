"""Values and threads that belong to one process and are not shared with forked processes.

Connections, locks and threads cannot be used after a fork. A module that keeps such a value for
the whole process uses a `ProcessLocal`, so that a forked process creates its own value.
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
    """A value per process, created when it is first used."""

    def __init__(self, create: Callable[[], ValueT]) -> None:
        """Prepare the value, which the first `get` creates by a call of `create`.

        If `create` raises an exception, the next `get` calls it again.
        """
        self._create = create
        self.reset()
        _HOLDERS.add(self)

    def get(self) -> ValueT:
        """Return the value of this process. Thread-safe."""
        with self._lock:
            if not self._values:
                self._values.append(self._create())
            return self._values[0]

    def pop(self) -> ValueT | None:
        """Remove the value and return it, or return `None`. The next `get` creates a new value."""
        with self._lock:
            return self._values.pop() if self._values else None

    def reset(self) -> None:
        """Discard the value and the lock, which a thread of the parent process may have in use."""
        self._lock = threading.Lock()
        self._values: list[ValueT] = []


class ProcessThreads:
    """A thread pool per process, for calls for which the caller waits only a limited time."""

    def __init__(self, size: int, name: str) -> None:
        """Create a pool of up to `size` threads, which are started when they are needed."""
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
