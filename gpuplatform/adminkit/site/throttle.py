"""Limits on failed logins, by name and by address of the client.

The broker counts them for all web processes. While it does not respond, each process counts its
own. Names are stored as digests, because users type passwords into the wrong field.
"""

import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django.conf import settings
from limits import RateLimitItem, RateLimitItemPerHour, RateLimitItemPerMinute
from limits.errors import StorageError
from limits.storage import MemoryStorage, Storage, storage_from_string
from limits.strategies import SlidingWindowCounterRateLimiter

from gpuplatform.formats.client_address import client_network
from gpuplatform.process_local import ProcessLocal

logger = logging.getLogger(__name__)

FAILURES_OF_PAIR: Final = RateLimitItemPerMinute(5, 5, namespace="login-pair")
"""Failures for one name from one address, or from one network of IPv6."""
FAILURES_OF_ADDRESS: Final = RateLimitItemPerMinute(50, 5, namespace="login-address")
"""Failures from one address. A proxy that is not trusted is one address for all its clients."""
FAILURES_OF_NAME: Final = RateLimitItemPerHour(100, namespace="login-name")
"""Failures for one name from any address."""

_BROKER_SECONDS: Final = 0.5
_BROKER_PAUSE_SECONDS: Final = 10.0
"""Time without further calls to a broker that did not respond."""

_Limits = Sequence[tuple[RateLimitItem, tuple[str, ...]]]


@dataclass
class _Limiters:
    """The counters of the broker and of this process."""

    shared: SlidingWindowCounterRateLimiter
    own: SlidingWindowCounterRateLimiter
    shared_again_at: float = 0.0

    def call(self, use: Callable[[SlidingWindowCounterRateLimiter], Any]) -> Any:
        """Call with the counters of the broker, or with the counters of this process."""
        if time.monotonic() >= self.shared_again_at:
            try:
                return use(self.shared)
            except StorageError as error:
                self.shared_again_at = time.monotonic() + _BROKER_PAUSE_SECONDS
                logger.warning("the broker does not count logins: %s", error.storage_error)
        return use(self.own)


def _limiters() -> _Limiters:
    # The types of the library do not include the concrete classes of the storages.
    shared: Any = storage_from_string(
        settings.CELERY_BROKER_URL,
        wrap_exceptions=True,
        socket_timeout=_BROKER_SECONDS,
        socket_connect_timeout=_BROKER_SECONDS,
    )
    own: Storage = MemoryStorage()
    return _Limiters(SlidingWindowCounterRateLimiter(shared), SlidingWindowCounterRateLimiter(own))


_PROCESS: Final = ProcessLocal(_limiters)


def pause_seconds(name: str, address: str) -> int:
    """Return the seconds until the next attempt is allowed, 0 if it is allowed now."""
    return int(_PROCESS.get().call(partial(_pause, _limits(name, address))))


def login_failed(name: str, address: str) -> None:
    """Count a failed attempt."""
    _PROCESS.get().call(partial(_hit, _limits(name, address)))


def login_succeeded(name: str, address: str) -> None:
    """Delete the recorded failures for the name from the address."""
    _PROCESS.get().call(partial(_clear, _limits(name, address)[:1]))


def _limits(name: str, address: str) -> _Limits:
    digest = hashlib.sha256(name.casefold().encode()).hexdigest()[:32]
    client = client_network(address)
    return (
        (FAILURES_OF_PAIR, (digest, client)),
        (FAILURES_OF_ADDRESS, (client,)),
        (FAILURES_OF_NAME, (digest,)),
    )


def _pause(limits: _Limits, limiter: SlidingWindowCounterRateLimiter) -> int:
    """Return the longest pause of the limits that are reached."""
    pauses = [
        limiter.get_window_stats(item, *ids).reset_time - time.time()
        for item, ids in limits
        if not limiter.test(item, *ids)
    ]
    return max((max(int(pause) + 1, 1) for pause in pauses), default=0)


def _hit(limits: _Limits, limiter: SlidingWindowCounterRateLimiter) -> None:
    for item, ids in limits:
        limiter.hit(item, *ids)


def _clear(limits: _Limits, limiter: SlidingWindowCounterRateLimiter) -> None:
    for item, ids in limits:
        limiter.clear(item, *ids)
