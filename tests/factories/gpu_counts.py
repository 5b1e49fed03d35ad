"""The GPUs that count for tenants, for assertions."""

from collections import Counter
from collections.abc import Iterable

from units.gpu_usage import gpus_counted


def held(tenants: Iterable[int]) -> Counter[int]:
    """Return the number of GPUs that count for each tenant."""
    counts = {tenant: one.total.used for tenant, one in gpus_counted(tenants).items()}
    return Counter({tenant: number for tenant, number in counts.items() if number})
