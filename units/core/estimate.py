"""The estimate of the waiting time from earlier grants. Pure."""

from collections.abc import Sequence
from statistics import quantiles
from typing import Final, NamedTuple

MIN_GRANTS: Final = 5
"""Number of grants of a GPU spec below which its waiting time is unknown."""

RECENT_GRANTS: Final = 50
"""Number of newest grants that the estimate uses."""


class PastGrant(NamedTuple):
    """A grant: the number of requests that were ahead, and the wait in seconds."""

    ahead: int
    seconds: float


def estimate(ahead: int, grants: Sequence[PastGrant]) -> tuple[int, int] | None:
    """Return the range of the waiting time in seconds of a request with `ahead` ones before it.

    The range contains the middle half of the earlier waiting times per position. It is `None` if
    there were too few grants.
    """
    if len(grants) < MIN_GRANTS:
        return None
    low, _, high = quantiles((grant.seconds / (grant.ahead + 1) for grant in grants), n=4)
    position = ahead + 1
    return round(max(low, 0) * position), round(max(high, 0) * position)
