"""`make chaos-x3`: workers are killed every 2 seconds during 1,000 operations.

Callers create, stop, start and delete units and seed their stock, while all workers of both kinds
are killed repeatedly. Afterwards every operation must have ended, nothing may be lost or
duplicated, and no unit may exist.
"""

import argparse
import itertools
import sys
import threading
import time
from functools import partial
from typing import Any

from tests.acceptance.killer import Killer
from tests.benchmarks.bench import (
    PORTS,
    SPEC,
    STOCK,
    UNITS,
    Api,
    Bench,
    at_once,
    describe_machine,
    on_control_plane,
    say,
)
from tests.chaos.ledger import OPEN, close_the_books, end

CALLERS = 8
A_LIFE = 5
"""Operations of one unit: seed, create, stop, start, delete."""
RETRY_SECONDS = 0.5
ACCEPTED_SECONDS = 600.0
VICTIMS = ("operations", "reconcile")
AT_LEAST = 300
"""Number of kills of a full experiment; it ends earlier when all operations are done."""


class Caller:
    """Runs the lifecycles of units; repeats rejected requests."""

    def __init__(self, bench: Bench, number: int) -> None:
        self._bench = bench
        self._api: Api = bench.api()
        self._number = number

    def live(self, lives: int) -> int:
        """Return the number of accepted operations."""
        return sum(self._live(f"x3-{self._number}-{life}") for life in range(lives))

    def _live(self, name: str) -> int:
        seed = {"specName": SPEC, "gpu": 1, "cpu": "100m", "memory": "64Mi", "replicas": 2}
        create = {"name": name, "specName": SPEC, "image": "busybox:1.36", "template": PORTS}
        self._ask("POST", STOCK, {"operationID": f"{name}-seed", **seed})
        self._ask("POST", UNITS, {"operationID": name, **create})
        self._ask("POST", f"{UNITS}/{name}/stop", {"operationID": f"{name}-stop"})
        self._ask("POST", f"{UNITS}/{name}/start", {"operationID": f"{name}-start"})
        self._ask("DELETE", f"{UNITS}/{name}?operationID={name}-delete")
        return A_LIFE

    def _ask(self, method: str, path: str, body: Any = None) -> None:
        """Repeat a request until it is accepted, and once more as a replay."""
        until = time.monotonic() + ACCEPTED_SECONDS
        while True:
            answer = self._api(method, path, body)
            if answer.status in {200, 202}:
                break
            code = (answer.body.get("error") or {}).get("code")
            if code != "insufficient_capacity" or time.monotonic() > until:
                raise SystemExit(f"{method} {path} returned {answer.status} {code}")
            threading.Event().wait(RETRY_SECONDS)
        again = self._api(method, path, body)
        if again.status != 200:
            raise SystemExit(f"the replay of {method} {path} returned {again.status}")


def main() -> int:
    """Run the experiment."""
    parser = argparse.ArgumentParser(prog="make chaos-x3", description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000)
    parser.add_argument("--every", type=float, default=2.0, metavar="SECONDS")
    options = parser.parse_args()
    describe_machine()
    with on_control_plane(is_like_production=False) as bench:
        killer = Killer(bench.platform, VICTIMS, every=options.every)
        begun = time.monotonic()
        with killer.at_work():
            lives = max(options.operations // (CALLERS * A_LIFE), 1)
            callers = [Caller(bench, number) for number in range(CALLERS)]
            calls = [partial(one.live, lives) for one in callers]
            accepted = sum(at_once(calls, CALLERS))
            say(f"{accepted} operations accepted, {time.monotonic() - begun:.0f} s")
            _wait_under_fire(bench, killer, options.operations)
        open_ = bench.platform.sql(OPEN)[0][0]
        say(f"{killer.kills} worker groups killed; {open_} operations open at that time")
        faults = close_the_books(bench)
        say(f"all ended after {time.monotonic() - begun:.0f} s")
        return end(faults + _left(bench))


def _wait_under_fire(bench: Bench, killer: Killer, operations: int) -> None:
    wanted = AT_LEAST * operations / 1_000
    until = time.monotonic() + ACCEPTED_SECONDS
    for _ in itertools.count():
        is_done = bench.platform.sql(OPEN)[0][0] == 0
        if is_done or killer.kills >= wanted or time.monotonic() > until:
            return
        threading.Event().wait(1)


def _left(bench: Bench) -> list[str]:
    left = "SELECT count(*) FROM units_gpuunit WHERE role = 'active' AND deleted_at IS NULL"
    until = time.monotonic() + 60
    while (number := bench.platform.sql(left)[0][0]) and time.monotonic() < until:
        threading.Event().wait(1)
    return [f"{number} deleted units still exist"] if number else []


if __name__ == "__main__":
    sys.exit(main())
