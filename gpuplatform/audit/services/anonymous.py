"""Limits on the entries about unknown callers. Otherwise, anyone could fill the database."""

from typing import Final

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from gpuplatform.formats.client_address import client_network
from gpuplatform.metrics.declared import AUDIT_OMITTED
from gpuplatform.metrics.recorder import count
from gpuplatform.process_local import ProcessLocal

OF_ADDRESS: Final = RateLimitItemPerMinute(60, namespace="audit-address")
"""Entries about rejected requests and logins from one address, or from one network of IPv6, for
each process."""
OF_ALL: Final = RateLimitItemPerMinute(600, namespace="audit-all")
"""Entries about rejected requests and logins from all addresses, for each process."""

_LIMITER: Final = ProcessLocal(lambda: SlidingWindowCounterRateLimiter(MemoryStorage()))


def is_recorded(address: str) -> bool:
    """Return whether a rejected request of an unknown caller has an entry.

    The request log and the log of logins contain the others, and a metric has their number.
    """
    limiter = _LIMITER.get()
    is_within: bool = limiter.hit(OF_ADDRESS, client_network(address)) and limiter.hit(OF_ALL)
    if not is_within:
        count(AUDIT_OMITTED)
    return is_within
