"""The decayed use of a tenant, which determines its share in the capacity queue. Pure."""

import math
from datetime import datetime


def decayed(gpu_seconds: float, at: datetime, now: datetime, tau: float) -> float:
    """Return decayed GPU-seconds at `now`, from those at `at`.

    `tau` is the time in seconds after which a fraction of 1/e still counts.
    """
    return gpu_seconds * math.exp(-max((now - at).total_seconds(), 0.0) / tau)
