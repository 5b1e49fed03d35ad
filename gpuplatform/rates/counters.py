"""Counts requests in the broker, for all web processes together.

While the broker does not respond, each process counts its own requests and allows half of each
rate. A request causes at most one call to the broker, and none for some seconds after a failure.
"""

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any, Final, Protocol

import redis
from django.conf import settings
from limits.storage import MemoryStorage
from limits.storage.redis import RedisStorage
from redis.backoff import NoBackoff
from redis.retry import Retry

from gpuplatform.process_local import ProcessLocal
from gpuplatform.rates.windows import Charge, Counts, Decision, decision, remaining

logger = logging.getLogger(__name__)

BROKER_SECONDS: Final = 0.25
"""Maximum duration in seconds of a call to the broker."""
PAUSE_SECONDS: Final = 5.0
"""Time in seconds after a failed call during which the broker is not called."""

_SCRIPT: Final = f"""
local function counts(KEYS, ARGV)
{RedisStorage.SCRIPT_SLIDING_WINDOW.decode()}
end
local function count(KEYS, ARGV)
{RedisStorage.SCRIPT_ACQUIRE_SLIDING_WINDOW.decode()}
end
local found, is_allowed = {{}}, 1
for place = 1, #ARGV, 2 do
    local limit, expiry = tonumber(ARGV[place]), tonumber(ARGV[place + 1])
    local seen = counts({{KEYS[place], KEYS[place + 1]}}, {{expiry}})
    local previous, current = tonumber(seen[1]) or 0, tonumber(seen[3]) or 0
    local ttl = math.max(tonumber(seen[2]), 0)
    if math.floor(previous * ttl / (expiry * 1000)) + current >= limit then
        is_allowed = 0
    end
    table.insert(found, {{previous, ttl, current, math.max(tonumber(seen[4]), 0)}})
end
if is_allowed == 1 then
    for place = 1, #ARGV, 2 do
        count({{KEYS[place], KEYS[place + 1]}}, {{ARGV[place], ARGV[place + 1], 1}})
    end
end
return {{is_allowed, found}}
"""
"""Counts a request in all windows or, if one of them has no room, in none.

The scripts of the library, each for one window, are its functions. In separate calls, a token that
has used up its rate would also use up the rate of its tenant.
"""


class Counter(Protocol):
    """Counts requests."""

    def take(self, charges: Sequence[Charge]) -> Decision:
        """Count a request for all charges if all of them allow it, otherwise for none."""


class SharedCounter:
    """The counter in the broker. Its calls raise `redis.RedisError`."""

    def __init__(self) -> None:
        self._client = redis.Redis.from_url(
            settings.CELERY_BROKER_URL,
            socket_timeout=BROKER_SECONDS,
            socket_connect_timeout=BROKER_SECONDS,
            # A connection that the broker closed while it was idle is replaced.
            retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        )
        self._script: Any = self._client.register_script(_SCRIPT)

    def take(self, charges: Sequence[Charge]) -> Decision:
        """Count a request with one call."""
        rates = [charge.rate for charge in charges]
        keys = [key for charge in charges for key in _keys(charge)]
        is_allowed, found = self._script(
            keys, [value for rate in rates for value in (rate.quota, rate.seconds)]
        )
        counts = [
            Counts(previous, previous_ms / 1000, current, current_ms / 1000)
            for previous, previous_ms, current, current_ms in found
        ]
        return decision(rates, counts, is_allowed=bool(is_allowed))


class OwnCounter:
    """The counter of this process, which allows half of each rate."""

    def __init__(self) -> None:
        self._storage = MemoryStorage()
        self._lock = threading.Lock()

    def take(self, charges: Sequence[Charge]) -> Decision:
        """Count a request."""
        rates = [charge.rate.halved() for charge in charges]
        keys = [_name(charge) for charge in charges]
        with self._lock:
            counts = [
                Counts(*self._storage.get_sliding_window(key, rate.seconds))
                for key, rate in zip(keys, rates, strict=True)
            ]
            is_allowed = all(map(remaining, rates, counts))
            if is_allowed:
                for key, rate in zip(keys, rates, strict=True):
                    self._storage.acquire_sliding_window_entry(key, rate.quota, rate.seconds)
        return decision(rates, counts, is_allowed=is_allowed)


class Counters:
    """The counter in the broker, and the one of this process that replaces it."""

    def __init__(self, shared: Counter, own: Counter) -> None:
        self._shared, self._own = shared, own
        self._lock = threading.Lock()
        self._failed = False
        self._shared_again_at = float("-inf")

    @property
    def is_degraded(self) -> bool:
        """Whether this process counts alone now, because the broker did not respond."""
        return time.monotonic() < self._shared_again_at

    def take(self, charges: Sequence[Charge]) -> Decision:
        """Count a request for all charges if all of them allow it, otherwise for none."""
        if self._may_call():
            try:
                found = self._shared.take(charges)
            except redis.RedisError as error:
                self._pause()
                logger.warning("the broker does not count requests: %s", error)
            else:
                self._failed, self._shared_again_at = False, float("-inf")
                return found
        return self._own.take(charges)

    def _may_call(self) -> bool:
        """Return whether to call the broker. After a failure, one request tries it again."""
        with self._lock:
            if self.is_degraded:
                return False
            if self._failed:
                self._pause()
            return True

    def _pause(self) -> None:
        self._failed = True
        self._shared_again_at = time.monotonic() + PAUSE_SECONDS


def _name(charge: Charge) -> str:
    """Return a name that is unique for the caller, the rate and its size."""
    rate = charge.rate
    return f"rates:{rate.policy}/{charge.caller}/{rate.quota}/{rate.seconds}"


def _keys(charge: Charge) -> tuple[str, str]:
    """Return the keys of the previous and of the current period."""
    name = _name(charge)
    return f"{name}/-1", name


COUNTERS: Final = ProcessLocal(lambda: Counters(SharedCounter(), OwnCounter()))
