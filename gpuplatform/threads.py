"""Threads for what a caller waits for only so long."""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

ArgumentsT = ParamSpec("ArgumentsT")
AnswerT = TypeVar("AnswerT")


class ProcessThreads:
    """Threads of this very process: they do not survive a fork, so that a copy makes its own."""

    def __init__(self, number: int, name: str) -> None:
        """At most `number` threads, made at the first use."""
        self._number = number
        self._name = name
        self._pid = 0
        self._pool: ThreadPoolExecutor

    def submit(
        self,
        call: Callable[ArgumentsT, AnswerT],
        *args: ArgumentsT.args,
        **kwargs: ArgumentsT.kwargs,
    ) -> Future[AnswerT]:
        """Have the call made; it waits while all threads are busy."""
        if self._pid != os.getpid():
            self._pool = ThreadPoolExecutor(self._number, thread_name_prefix=self._name)
            self._pid = os.getpid()
        return self._pool.submit(call, *args, **kwargs)
