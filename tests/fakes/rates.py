"""A clock that tests move, and the counter of a process as a substitute for the broker's."""

from collections.abc import Sequence

import limits.storage.memory
import pytest

from gpuplatform.rates import counters
from gpuplatform.rates.counters import OwnCounter
from gpuplatform.rates.windows import Charge, Decision, Rate


class Clock:
    """The clock of the library and of the pauses."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def time(self) -> float:
        """Return the current time."""
        return self.seconds

    monotonic = time


class WholeCounter:
    """The counter of this process for twice the rate, so that it allows the whole rate."""

    def __init__(self) -> None:
        self._own = OwnCounter()

    def take(self, charges: Sequence[Charge]) -> Decision:
        """Count a request."""
        return self._own.take([_doubled(one) for one in charges])


def _doubled(charge: Charge) -> Charge:
    rate = charge.rate
    return Charge(Rate(rate.policy, rate.quota * 2, rate.seconds), charge.caller)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock, which stands still."""
    clock = Clock()
    monkeypatch.setattr(limits.storage.memory, "time", clock)
    monkeypatch.setattr(counters, "time", clock)
    return clock
