"""`make bench-queue`: the matcher and the acceptance of creates beside a long queue.

The parts `grants` and `creates` measure the services of this process on PostgreSQL. `matcher`
simulates a day of an over-subscribed GPU spec with the rows and the matcher, and prints the
waiting times beside those of the pure order; `days` simulates several days with the pure order.
Figures of different or loaded machines are not comparable; ratios within one run are.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from tests.benchmarks import queue_day
from tests.benchmarks.database import database

SPEC: Final = "bench-1g"
TENANTS: Final = 50
WAITING: Final = 1_000
GRANTS: Final = 300
GRANT_MS: Final = 20.0
CREATES: Final = 600
CALLERS: Final = 4
CREATES_A_SECOND: Final = 100.0
CREATES_RATIO: Final = 0.75


def say(words: str) -> None:
    """Print a line and flush."""
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


def milliseconds(seconds: Sequence[float]) -> str:
    """Return the median and the 95th percentile."""
    parts = statistics.quantiles(seconds, n=20)
    return f"p50 {parts[9] * 1000:.1f} ms, p95 {parts[18] * 1000:.1f} ms"


def load_words() -> str:
    """Return the load averages."""
    return "load " + " ".join(f"{one:.1f}" for one in os.getloadavg())


def grants() -> None:
    """The duration of a grant, of a request that joins the queue, and of a read of its place."""
    from tests.benchmarks.queue_rows import (  # noqa: PLC0415 - after Django is set up
        ask,
        clear,
        reads_of_places,
        stock,
        times_between_grants,
    )
    from units.services import matcher  # noqa: PLC0415 - after Django is set up

    clear()
    took = [ask(f"waiting-{n}", n % TENANTS, waits=True)[1] for n in range(WAITING)]
    say(f"create that joins a queue of up to {WAITING}: {milliseconds(took[WAITING // 2 :])}")
    say(f"read of the place of a unit: {milliseconds(reads_of_places(100))}")
    stock(GRANTS)
    cpu = time.process_time()
    matcher.match(SPEC)
    spent = time.process_time() - cpu
    seconds = times_between_grants()
    p95 = statistics.quantiles(seconds, n=20)[18] * 1000
    verdict = "reached" if p95 <= GRANT_MS else "MISSED"
    say(f"grant with {WAITING} waiting of {TENANTS} tenants: {milliseconds(seconds)}: {verdict}")
    say(f"  {spent / GRANTS * 1000:.1f} ms of processor time in Python; {load_words()}")


def creates() -> None:
    """Accepted creates per second without `wait`, beside no queue and beside two queues."""
    rates = {}
    for name, waiting in (("no queue", ""), ("same spec", SPEC), ("other spec", "bench-2g")):
        rates[name] = _creates(name, waiting)
    base = rates["no queue"]
    for name in ("same spec", "other spec"):
        ratio = rates[name] / base
        is_good = rates[name] >= CREATES_A_SECOND and ratio >= CREATES_RATIO
        say(f"  beside {WAITING} of the {name}: {ratio:.2f} {'reached' if is_good else 'MISSED'}")


def _creates(name: str, waiting: str) -> float:
    from tests.benchmarks.queue_rows import ask, clear, stock, wait_for_other_stock  # noqa: PLC0415 - after Django is set up

    clear()
    if waiting:
        wait_for_other_stock(waiting, WAITING, TENANTS)
    stock(CREATES)
    begun = time.perf_counter()
    with ThreadPoolExecutor(CALLERS) as pool:
        jobs = [
            pool.submit(partial(ask, f"now-{n}", TENANTS, waits=False)) for n in range(CREATES)
        ]
        took = [job.result()[1] for job in jobs]
    rate = CREATES / (time.perf_counter() - begun)
    say(f"creates without wait, {name}: {rate:.0f}/s by {CALLERS} threads, {milliseconds(took)}")
    return rate


def matcher_day() -> None:
    """A day through the matcher on PostgreSQL, beside the pure order."""
    from tests.benchmarks.queue_matcher_day import compare  # noqa: PLC0415 - after Django is set up

    for line in compare():
        say(line)


def days() -> None:
    """Several days with the pure order, with and without an impatient tenant."""
    queue_day.main()


PARTS: Final = {"grants": grants, "creates": creates, "matcher": matcher_day, "days": days}


def main() -> None:
    """Run the parts of the command line, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS])
    wanted = parser.parse_args().parts or list(PARTS)
    with database():
        for part in wanted:
            PARTS[part]()


if __name__ == "__main__":
    main()
