"""The numbers of a sliding window, and the header fields that describe it. Pure.

A window has two counters: of the current period and of the previous one, which counts less the
longer ago it ended. The header fields are the ones of the Internet-Draft "RateLimit header fields
for HTTP" (draft-ietf-httpapi-ratelimit-headers-11), sections 3 and 4.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Rate:
    """A number of requests in a sliding window."""

    policy: str
    """The name of the rate in header fields."""
    quota: int
    seconds: int

    def halved(self) -> "Rate":
        """Return half of the rate, but at least one request."""
        return Rate(self.policy, max(self.quota // 2, 1), self.seconds)


@dataclass(frozen=True, slots=True)
class Charge:
    """A request that counts for the rate of one caller."""

    rate: Rate
    caller: str
    """Identifies the caller among all callers with the rate."""


class Counts(NamedTuple):
    """The counters of a sliding window."""

    previous: int
    previous_seconds: float
    """Remaining time in seconds in which the previous period counts."""
    current: int
    current_seconds: float
    """Remaining time of the current period in seconds, plus the duration of a period."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What remains of a rate for one caller."""

    rate: Rate
    remaining: int
    seconds: int
    """Seconds after which more requests than `remaining` are possible. 0 if none was counted."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a request is allowed, and what remains of each rate afterwards."""

    is_allowed: bool
    standings: tuple[Standing, ...]

    @property
    def retry_after(self) -> int:
        """The seconds after which something remains of every rate."""
        return max((one.seconds for one in self.standings if not one.remaining), default=0)

    def headers(self) -> dict[str, str]:
        """Return the header fields of the response."""
        policies = (
            f'"{one.rate.policy}";q={one.rate.quota};w={one.rate.seconds}'
            for one in self.standings
        )
        limits = (
            f'"{one.rate.policy}";r={one.remaining};t={one.seconds}' for one in self.standings
        )
        return {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(limits)}


def decision(rates: Sequence[Rate], counts: Sequence[Counts], *, is_allowed: bool) -> Decision:
    """Return the decision about a request, from the counters before it was counted.

    A request counts for all rates if it is allowed, and otherwise for none.
    """
    after = [_counted(*one) for one in zip(rates, counts, strict=True)] if is_allowed else counts
    return Decision(is_allowed, tuple(map(_standing, rates, after)))


def remaining(rate: Rate, counts: Counts) -> int:
    """Return the number of requests that are possible now."""
    return max(rate.quota - _of_previous(rate, counts) - counts.current, 0)


def _counted(rate: Rate, counts: Counts) -> Counts:
    seconds = counts.current_seconds or 2.0 * rate.seconds
    return counts._replace(current=counts.current + 1, current_seconds=seconds)


def _standing(rate: Rate, counts: Counts) -> Standing:
    left = _seconds_to_more(rate, counts)
    seconds = 0 if left is None else max(math.ceil(left), 1)
    return Standing(rate, remaining(rate, counts), seconds)


def _seconds_to_more(rate: Rate, counts: Counts) -> float | None:
    """Return the time after which a request counts less, or `None` if none is counted."""
    counted = _of_previous(rate, counts)
    if counted:
        return counts.previous_seconds - counted * rate.seconds / counts.previous
    # The current period becomes the previous one, and counts less immediately.
    return counts.current_seconds - rate.seconds if counts.current else None


def _of_previous(rate: Rate, counts: Counts) -> int:
    return math.floor(counts.previous * counts.previous_seconds / rate.seconds)
