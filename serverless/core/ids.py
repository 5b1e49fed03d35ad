"""Ids of functions, which tenants can read in the names of their workers."""

import secrets
import time
from typing import Final

_EPOCH_MILLISECONDS: Final = 1_767_225_600_000
"""2026-01-01 in milliseconds since 1970."""
_RANDOM_BITS: Final = 20


def function_id() -> int:
    """Return a new id of at most 18 digits until 2056, larger than the ids of earlier times.

    The number of functions cannot be concluded from it: the upper bits are the time in
    milliseconds, the lower 20 bits are random.
    """
    elapsed = time.time_ns() // 1_000_000 - _EPOCH_MILLISECONDS
    return (elapsed << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
