"""What a tenant has: counted by the page of each kind of rows, shown on the tenant's own."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """What there is of a tenant's GPU units, and what they hold."""

    units: int = 0
    failed: int = 0
    gpus: int = 0
