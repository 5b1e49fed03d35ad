"""The delay after consecutive failures. Pure, apart from the jitter, which can be given."""

import random

FIRST_SECONDS = 1.0
LONGEST_SECONDS = 300.0
JITTER = 0.2


def backoff_seconds(
    failures: int, *, longest: float = LONGEST_SECONDS, chance: float | None = None
) -> float:
    """Return the seconds to wait after `failures` (≥ 1) failures: 1, doubled each time, ± 20 %.

    `chance` in [0, 1) decides the jitter; by default it is random.
    """
    drawn = random.random() if chance is None else chance  # noqa: S311 - jitter, not a secret
    base = min(longest, FIRST_SECONDS * 2.0 ** min(max(failures, 1) - 1, 32))
    return base * (1 - JITTER + 2 * JITTER * drawn)
