"""One time budget for all cluster calls of a unit of work.

    with deadline(20):
        cluster.get(...)
        cluster.apply(...)   # gets the time that the first call left

Every call of `Cluster` waits at most for `remaining()`. Budgets nest: an inner one can only
shorten the outer one. A budget belongs to the thread (or asynchronous task) that opened it.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from gpuplatform.errors import ClusterUnavailable

Clock = Callable[[], float]
"""A monotonic clock, in seconds."""

_ends: ContextVar[tuple[float, Clock] | None] = ContextVar("cluster_deadline", default=None)


@contextmanager
def deadline(seconds: float, *, clock: Clock = time.monotonic) -> Iterator[None]:
    """Limit the block to `seconds` in total, and to what an outer budget has left."""
    outer = remaining()
    allowed = seconds if outer is None else min(seconds, outer)
    token = _ends.set((clock() + allowed, clock))
    try:
        yield
    finally:
        _ends.reset(token)


def remaining() -> float | None:
    """Return the seconds left, at least 0; `None` without a budget."""
    budget = _ends.get()
    if budget is None:
        return None
    end, clock = budget
    return max(0.0, end - clock())


def capped(seconds: float) -> float:
    """Return `seconds`, or what the budget has left if that is less.

    Raises:
        ClusterUnavailable: Nothing is left.
    """
    left = remaining()
    if left is None:
        return seconds
    if left <= 0:
        raise ClusterUnavailable(
            "The cluster did not answer within the time limit. The platform retries automatically."
        )
    return min(seconds, left)
