"""One deadline for all cluster calls in a block.

    with deadline(20):
        cluster.get(...)
        cluster.apply(...)   # may use the remaining time

Each call of `Cluster` takes at most `remaining()` seconds. An inner deadline can only shorten the
outer one. A deadline applies to the thread or the asynchronous task that set it.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from gpuplatform.kube.errors import ClusterUnavailable

Clock = Callable[[], float]
"""Returns the time of a monotonic clock in seconds."""

_ends: ContextVar[tuple[float, Clock] | None] = ContextVar("cluster_deadline", default=None)


@contextmanager
def deadline(seconds: float, *, clock: Clock = time.monotonic) -> Iterator[None]:
    """Limit the cluster calls in the block to `seconds` in total, or to the outer deadline."""
    outer = remaining()
    allowed = seconds if outer is None else min(seconds, outer)
    token = _ends.set((clock() + allowed, clock))
    try:
        yield
    finally:
        _ends.reset(token)


def remaining() -> float | None:
    """Return the seconds until the deadline, at least 0, or `None` without a deadline."""
    budget = _ends.get()
    if budget is None:
        return None
    end, clock = budget
    return max(0.0, end - clock())


def capped(seconds: float) -> float:
    """Return `seconds`, limited to the time until the deadline.

    Raises:
        ClusterUnavailable: If the deadline has passed.
    """
    left = remaining()
    if left is None:
        return seconds
    if left <= 0:
        raise ClusterUnavailable(
            "The cluster did not respond within the time limit. The platform retries"
            " automatically."
        )
    return min(seconds, left)
