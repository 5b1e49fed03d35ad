"""A part of `make bench-units`: latency of other requests during a burst of 1,000 creates."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from tests.benchmarks.bench import UNITS, Api, Bench, at_once, say
from tests.benchmarks.pools import percentiles

JOBS: Final = "/api/v1/operator/jobs"
CROWD: Final = 1_000
SECONDS: Final = 10
CALLERS: Final = 40
FIRST: Final = 20
"""Number of ready stock units at the start; the burst also claims later stock."""


def crowd(bench: Bench) -> None:
    """Other requests while 1,000 stock units are seeded and 1,000 units created in ten seconds."""
    bench.seed(FIRST)
    others: dict[str, list[float]] = {"list of units": [], "list of operations": [], "one job": []}
    seeding = bench.ask_for_stock(CROWD)
    stop = threading.Event()
    paths = dict(
        zip(others, (f"{UNITS}?limit=100", f"{JOBS}?limit=100", f"{JOBS}/{seeding}"), strict=True)
    )
    watchers = [
        threading.Thread(target=_look, args=(bench.api(), path, others[what], stop))
        for what, path in paths.items()
    ]
    for watcher in watchers:
        watcher.start()
    begun = time.perf_counter()
    calls: list[Callable[[], tuple[int, float]]] = [
        partial(_create, bench, begun, number) for number in range(CROWD)
    ]
    answers = at_once(calls, CALLERS)
    took = time.perf_counter() - begun
    api = bench.api()
    progress = api("GET", f"{JOBS}/{seeding}").body["data"]["progress"]
    cancelled = api("POST", f"{JOBS}/{seeding}/cancel", {"operationID": bench.name("cancel")})
    stop.set()
    for watcher in watchers:
        watcher.join()
    statuses = Counter(status for status, _ in answers)
    say(f"{CROWD} creates answered in {took:.1f} s: {dict(statuses)}")
    say(f"  latency: {percentiles([seconds for _, seconds in answers])}")
    for what, found in others.items():
        say(f"  {what} during the burst ({len(found)}): {percentiles(found)}")
    say(f"  seeded stock: {progress}; its cancellation returned {cancelled.status}")
    _say_end(bench, seeding, statuses[202])


def _look(api: Api, path: str, took: list[float], stop: threading.Event) -> None:
    while not stop.wait(0.1):
        begun = time.perf_counter()
        answer = api("GET", path)
        took.append(time.perf_counter() - begun)
        if answer.status != 200:
            raise SystemExit(f"{path} returned {answer.status}")


def _create(bench: Bench, begun: float, number: int) -> tuple[int, float]:
    """Request a unit at its time; return the status and the seconds."""
    pause = begun + number * SECONDS / CROWD - time.perf_counter()
    threading.Event().wait(max(pause, 0))
    api, asked = bench.api(), time.perf_counter()
    status = bench.ask_for_unit(api, bench.name("crowd")).status
    return status, time.perf_counter() - asked


def _say_end(bench: Bench, seeding: str, accepted: int) -> None:
    """Wait until all operations have ended; check the final state."""
    open_ = "SELECT count(*) FROM operations_operation WHERE phase IN ('Pending', 'Running')"
    bench.platform.wait(lambda: bench.platform.sql(open_)[0][0] == 0, "operations to end", 600)
    ((made, phase),) = bench.platform.sql(
        "SELECT (SELECT count(*) FROM units_gpuunit WHERE operation_id = o.id AND uid <> ''),"
        " phase FROM operations_operation o WHERE operation_id = %s",
        seeding,
    )
    ((units,),) = bench.platform.sql(
        "SELECT count(*) FROM units_gpuunit WHERE role = 'active' AND name LIKE 'crowd-%%'"
        " AND uid <> ''"
    )
    ((consumed,),) = bench.platform.sql(
        "SELECT count(DISTINCT consumed_by) FROM units_gpuunit WHERE role = 'stock'"
        " AND consumed_by IN (SELECT uid FROM units_gpuunit WHERE name LIKE 'crowd-%%')"
    )
    say(f"  the seeding is {phase} with {made} created")
    say(f"  creates accepted {accepted}, units created {units}, stock consumed {consumed}")
