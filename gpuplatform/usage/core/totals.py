"""The GPUs that intervals charge at the same time. Pure."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple


class Charge(NamedTuple):
    """What one interval charges: a number of GPUs of a resource, from `begin` until `end`."""

    resource_name: str
    gpus: int
    begin: datetime
    end: datetime


def most_charged(charges: Iterable[Charge]) -> Counter[str]:
    """Return the largest number of GPUs of each resource that is charged at one instant.

    A charge includes its begin and excludes its end.
    """
    changes: list[tuple[datetime, int, str]] = []
    for one in charges:
        if one.begin < one.end:
            changes += [(one.begin, one.gpus, one.resource_name)]
            changes += [(one.end, -one.gpus, one.resource_name)]
    now, most = Counter[str](), Counter[str]()
    for _, number, name in sorted(changes):  # Of one instant, ends come first.
        now[name] += number
        most[name] = max(most[name], now[name])
    return most
