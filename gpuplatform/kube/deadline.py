"""One time budget for all cluster calls of a piece of work.

    with deadline(20):
        cluster.get(...)
        cluster.apply(...)   # has what the first call left

Every call of `Cluster` asks `remaining()` and waits no longer. Budgets nest: an inner one can only
shorten the outer one. The budget belongs to the thread (or asynchronous task) that opened it.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from gpuplatform.errors import ClusterUnavailable

Clock = Callable[[], float]
"""Seconds that never run backwards."""

_ends: ContextVar[tuple[float, Clock] | None] = ContextVar("cluster_deadline", default=None)


@contextmanager
def deadline(seconds: float, *, clock: Clock = time.monotonic) -> Iterator[None]:
    """Give everything inside `seconds` together, and never more than an outer budget has left."""
    outer = remaining()
    mine = seconds if outer is None else min(seconds, outer)
    token = _ends.set((clock() + mine, clock))
    try:
        yield
    finally:
        _ends.reset(token)


def remaining() -> float | None:
    """Return the seconds left, at least 0; `None` where no budget is set."""
    budget = _ends.get()
    if budget is None:
        return None
    end, clock = budget
    return max(0.0, end - clock())


def capped(seconds: float) -> float:
    """Return `seconds`, or what the budget has left when that is less.

    Raises:
        ClusterUnavailable: Nothing is left.
    """
    left = remaining()
    if left is None:
        return seconds
    if left <= 0:
        raise ClusterUnavailable(
            "The cluster did not answer in the time this work has. The platform tries again by"
            " itself."
        )
    return min(seconds, left)
