"""The delay after consecutive failures. Pure, except for the random jitter."""

import random

FIRST_SECONDS = 1.0
LONGEST_SECONDS = 300.0
JITTER = 0.2


def backoff_seconds(
    failures: int, *, longest: float = LONGEST_SECONDS, chance: float | None = None
) -> float:
    """Return the delay in seconds after `failures` (at least 1) consecutive failures.

    The delay is one second after the first failure and doubles with each failure, up to `longest`.
    A jitter of at most 20 % is added or subtracted; `chance` in [0, 1) determines the jitter,
    which is random by default.
    """
    drawn = random.random() if chance is None else chance  # noqa: S311 - jitter, not a secret
    base = min(longest, FIRST_SECONDS * 2.0 ** min(max(failures, 1) - 1, 32))
    return base * (1 - JITTER + 2 * JITTER * drawn)
