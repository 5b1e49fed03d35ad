"""A simulated day of an over-subscribed GPU spec, with the order that the matcher uses.

`make bench-queue` prints how long each kind of tenant waits. The simulation has no database: it
calls the pure functions of `units.core.queue` for each event.
"""

import heapq
import itertools
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from units.core.queue import (
    HALF_LIFE_SECONDS,
    TAU_SECONDS,
    Hold,
    QueueRequest,
    QueueTenant,
    hold_seconds,
    is_hold_over,
    may_hold,
    next_grant,
)

GPUS, DAY_SECONDS, RESTOCK_SECONDS = 16, 86_400.0, 20.0
"""The GPUs of the spec, and the time after which a released GPU is ready stock again."""
NAMES = ("steady1", "steady2", "burst", "churn", "group4", "group12", "small", "impatient")
NUMBERS = {name: number for number, name in enumerate(NAMES)}
PATIENCE_SECONDS = 599.0
"""The time after which the impatient tenant, which asks for all GPUs, cancels and asks again."""


def accrued(usage: float, gpus: float, seconds: float) -> float:
    """Return the usage in GPU-seconds after `gpus` were held for `seconds`."""
    kept = float(0.5 ** (seconds / HALF_LIFE_SECONDS))
    return usage * kept + gpus * TAU_SECONDS * (1 - kept)


class Demand(NamedTuple):
    """A request for units that run for `seconds`."""

    at: float
    tenant: str
    size: int
    seconds: float


def demands(chance: random.Random, *, is_attacked: bool) -> Iterator[Demand]:
    """Yield the requests that do not depend on grants."""
    for name in ("steady1", "steady2"):
        at = 0.0
        while at < DAY_SECONDS:
            at += chance.expovariate(1 / 720)
            yield Demand(at, name, 1, chance.expovariate(1 / 3600))
    for at in (1_800.0, 43_200.0):
        yield from (Demand(at + chance.random(), "burst", 1, 1_800) for _ in range(120))
    for hour in range(1, 24, 2):
        yield Demand(hour * 3600 + chance.random(), "group4", 4, 3_600)
    for hour in range(3, 24, 6):
        yield Demand(hour * 3600 + chance.random(), "group12", 12, 1_800)
    for slot in range(int(DAY_SECONDS / 5400)):
        yield Demand(slot * 5400 + chance.random() * 600, "small", 1, 1_200)
    yield from (Demand(float(slot), "churn", 1, 300) for slot in range(10))
    if is_attacked:
        yield Demand(60.0, "impatient", GPUS, 60)


@dataclass
class Day:
    """The state of the simulation."""

    seed: int
    is_attacked: bool = False
    counts_usage: bool = True
    """Whether the share contains the decayed usage, in addition to the GPUs that are held."""
    now: float = 0.0
    free: int = GPUS
    pause_until: float = 0.0
    busy_seconds: float = 0.0
    waits: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    unserved: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """The waiting times of the requests that were still open at the end."""
    tenants: dict[int, QueueTenant] = field(
        default_factory=lambda: dict.fromkeys(NUMBERS.values(), QueueTenant())
    )
    queue: dict[int, QueueRequest] = field(default_factory=dict)
    holds: dict[int, Hold] = field(default_factory=dict)
    durations: dict[int, float] = field(default_factory=dict)
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    events: list[tuple[float, int, str, tuple[object, ...]]] = field(default_factory=list)

    def run(self) -> "Day":
        """Simulate the day."""
        for one in demands(random.Random(self.seed), is_attacked=self.is_attacked):
            self._at(one.at, "ask", one)
        while self.events and self.events[0][0] < DAY_SECONDS:
            at, _, kind, data = heapq.heappop(self.events)
            self._pass(at - self.now)
            getattr(self, f"_on_{kind}")(*data)
            self._match()
        for request in self.queue.values():
            self.unserved[NAMES[request.tenant]].append(DAY_SECONDS - request.requested_at)
        return self

    def minutes(self, name: str) -> list[float]:
        """Return the waiting times of a tenant; an open request counts until the end."""
        return sorted(seconds / 60 for seconds in (*self.waits[name], *self.unserved[name]))

    @property
    def use(self) -> float:
        """The part of the GPU time in which units held the GPUs."""
        return self.busy_seconds / DAY_SECONDS / GPUS

    def _at(self, at: float, kind: str, *data: object) -> None:
        heapq.heappush(self.events, (at, next(self.numbers), kind, data))

    def _pass(self, seconds: float) -> None:
        self.busy_seconds += seconds * sum(one.held for one in self.tenants.values())
        self.now += seconds
        self.tenants = {
            number: one._replace(
                usage=accrued(one.usage, one.held, seconds) if self.counts_usage else 0.0
            )
            for number, one in self.tenants.items()
        }

    def _on_ask(self, demand: Demand) -> None:
        number, tenant = next(self.numbers), NUMBERS[demand.tenant]
        request = QueueRequest(number, tenant, demand.size, demand.size, requested_at=self.now)
        self.queue[number], self.durations[number] = request, demand.seconds
        self.holds[number] = Hold()
        if demand.tenant == "impatient":
            self._at(self.now + PATIENCE_SECONDS, "cancel", number, demand)

    def _on_cancel(self, number: int, demand: Demand) -> None:
        if self.queue.pop(number, None) is None:
            return
        hold = self.holds.pop(number)
        if hold.begun_at is not None:
            self.pause_until = self.now + hold_seconds(hold.times)
        self._at(self.now + 0.5, "ask", demand._replace(at=self.now))

    def _on_end(self, tenant: int, count: int) -> None:
        self._hold_gpus(tenant, -count)
        self._at(self.now + RESTOCK_SECONDS, "ready", count)
        if NAMES[tenant] == "churn":
            self._at(self.now, "ask", Demand(self.now, "churn", 1, 300))

    def _on_ready(self, count: int) -> None:
        self.free += count

    def _on_timer(self) -> None:
        """Run the matcher because a hold or a pause is over."""

    def _match(self) -> None:
        """Grant one request after the other, as the matcher does."""
        self._end_holds()
        while True:
            found = next_grant(self.queue.values(), self.tenants, range(self.free), self._may_hold)
            if found.held and self.holds[found.holder].begun_at is None:
                hold = self.holds[found.holder]._replace(begun_at=self.now)
                self.holds[found.holder] = hold
                self._at(self.now + hold_seconds(hold.times), "timer")
            if found.request is None:
                return
            self._grant(found.request)

    def _end_holds(self) -> None:
        for number, hold in self.holds.items():
            if number in self.queue and is_hold_over(hold, self.now):
                self.pause_until = self.now + hold_seconds(hold.times)
                self.holds[number] = Hold(None, hold.times + 1)
                self._at(self.pause_until, "timer")

    def _may_hold(self, request: QueueRequest) -> bool:
        return may_hold(self.holds[request.number], self.pause_until, self.now)

    def _grant(self, request: QueueRequest) -> None:
        del self.queue[request.number], self.holds[request.number]
        self.waits[NAMES[request.tenant]].append(self.now - request.requested_at)
        self.free -= request.size
        self._hold_gpus(request.tenant, request.size)
        seconds = self.durations.pop(request.number)
        self._at(self.now + seconds, "end", request.tenant, request.size)

    def _hold_gpus(self, tenant: int, count: int) -> None:
        known = self.tenants[tenant]
        self.tenants[tenant] = known._replace(held=known.held + count)


def quantile(minutes: Sequence[float], part: float) -> float:
    """Return the value below which `part` of the sorted minutes are."""
    if not minutes:
        return float("nan")
    return minutes[min(len(minutes) - 1, int(part * len(minutes)))]


def report(days: Sequence[Day]) -> Iterator[str]:
    """Yield the lines of the table of waiting times over all days."""
    yield f"{'tenant':<10} {'p50':>6} {'p95':>6} {'longest':>8} {'granted':>8} {'open':>6}"
    for name in NAMES[:-1]:
        minutes = sorted(itertools.chain.from_iterable(day.minutes(name) for day in days))
        parts = [quantile(minutes, part) for part in (0.5, 0.95, 1.0)]
        granted = sum(len(day.waits[name]) for day in days)
        still = sum(len(day.unserved[name]) for day in days)
        yield (
            f"{name:<10} {parts[0]:>6.0f} {parts[1]:>6.0f} {parts[2]:>8.0f}"
            f" {granted:>8} {still:>6}"
        )
    yield f"GPUs in use: {sum(day.use for day in days) / len(days):.0%}"


def main() -> None:
    """Print the waiting times in minutes of several days, without and with the attack."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    for is_attacked in (False, True):
        kind = "with" if is_attacked else "without"
        sys.stdout.write(f"Minutes waited in {count} days, {kind} an impatient tenant\n")
        days = [Day(seed, is_attacked=is_attacked).run() for seed in range(count)]
        sys.stdout.write("\n".join(report(days)) + "\n\n")


if __name__ == "__main__":
    main()
