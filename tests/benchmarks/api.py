"""`make bench-api`: lists of many operations, accepted requests per second, reconcile_all.

Runs on the simulated cluster, with all servers on the machine of the callers. Without arguments
all parts run; `make bench-api ARGS="list post"` runs some. Figures of different or loaded machines
are not comparable; ratios within one run are.
"""

import argparse
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from gpuplatform.kube.kinds import DEPLOYMENT, SERVICE, STOCK_POOL
from tests.acceptance.platform import JOBS, POOLS
from tests.benchmarks.bench import (
    SPEC,
    Api,
    Bench,
    at_once,
    describe_machine,
    load_words,
    on_simulator,
    say,
)
from tests.benchmarks.many_rows import OPERATIONS, copy_row
from tests.benchmarks.pools import percentiles

PAGE: Final = 100
FEW: Final = 1_000
DEPTHS: Final = (0.0, 0.25, 0.5, 0.75, 0.85)
FILTERS: Final = (
    "",
    "&phase=Succeeded",
    "&phase=Failed",
    "&kind=stockpool.create",
    "&maxAgeSeconds=60",
    "&maxAgeSeconds=86400",
)
"""Filters with many, few and no rows."""
LIST_MS: Final = 30.0
POSTS_A_SECOND: Final = 150.0
COMPARE_SECONDS: Final = 15.0
COMPARE_MIB: Final = 400.0
CALLERS: Final = 8
SETTLE_SECONDS: Final = 900.0


def _verdict(found: float, most: float) -> str:
    """Return whether a figure is within the limit for an idle machine."""
    words = "within" if found <= most else "NOT within"
    return f"{abs(found):.4g} is {words} {abs(most):.4g}"


def lists(bench: Bench, sizes: argparse.Namespace) -> None:
    """Pages of operations at every depth, with and without filters, for two numbers of rows."""
    _pool(bench, bench.api(), "pattern")
    bench.platform.wait_for_job("pattern")
    few, many = (_listed(bench, rows, sizes.requests) for rows in (FEW, sizes.rows))
    say(
        f"list of {PAGE} of {sizes.rows} operations, worst p95 {many:.1f} ms:"
        f" {_verdict(many, LIST_MS)}"
    )
    say(f"  {many / few:.1f} times a list of {FEW}")


def _listed(bench: Bench, rows: int, requests: int) -> float:
    """Return the worst p95 with this number of operations."""
    sql = bench.platform.sql
    sql(f"DELETE FROM {OPERATIONS} WHERE operation_id LIKE 'copy-%%'")
    ((pattern,),) = sql(f"SELECT max(id) FROM {OPERATIONS}")
    age = f"now() - ({rows} - n) * interval '1 second'"
    names = {"operation_id": "'copy-' || n", "object_name": "'copy-' || n", "created_at": age}
    copy_row(bench.platform, OPERATIONS, pattern, rows, names)
    sql(f"VACUUM ANALYZE {OPERATIONS}")
    say(f"  {rows} operations:")
    return _pages(bench, requests, FILTERS)


def _pages(bench: Bench, requests: int, filters: Sequence[str]) -> float:
    """Return the worst p95 in milliseconds over all depths and filters."""
    ((lowest, highest),) = bench.platform.sql(f"SELECT min(id), max(id) FROM {OPERATIONS}")
    begins = [highest + 1 - round((highest - lowest) * depth) for depth in DEPTHS]
    cursors = _cursors(bench, begins)
    api, worst = bench.api(), 0.0
    for words in filters:
        for depth, cursor in zip(DEPTHS, cursors, strict=True):
            path = f"{JOBS}?limit={PAGE}&cursor={cursor}{words}"
            took = [_timed(api, path) for _ in range(requests)]
            worst = max(worst, sorted(took)[round(len(took) * 0.95) - 1] * 1000)
            say(f"  {words or 'no filter':24} depth {depth:4.0%}: {percentiles(took)}")
    return worst


def _cursors(bench: Bench, row_ids: Sequence[int]) -> list[str]:
    """Return the cursors after these rows, which only the platform can encrypt."""
    code = "from gpuplatform.api.pagination import encode_cursor as e"
    command = bench.platform.manage("shell", "-v", "0", "-c", f"{code}; print(*map(e, {row_ids}))")
    return command.stdout.split()


def _timed(api: Api, path: str) -> float:
    begun = time.perf_counter()
    answer = api("GET", path)
    if answer.status != 200:
        raise SystemExit(f"a list returned {answer.status}: {answer.body}")
    return time.perf_counter() - begun


def posts(bench: Bench, sizes: argparse.Namespace) -> None:
    """Accepted requests per second, with paused and with running workers."""
    paused = ("operations", "reconcile", "periodic", "beat")
    for part in paused:
        bench.platform.kill(part)
    rate = _post_all(bench, "paused", sizes.posts)
    say(f"POST with paused workers: {rate:.0f}/s: {_verdict(-rate, -POSTS_A_SECOND)}")
    for part in paused:
        bench.platform.start(part)
    beside = _post_all(bench, "working", sizes.posts)
    say(f"POST with running workers: {beside:.0f}/s, {beside / rate:.2f} of the former")


def _post_all(bench: Bench, prefix: str, number: int) -> float:
    apis = [bench.api() for _ in range(CALLERS)]
    before = bench.cpu_seconds_of("web")
    begun = time.perf_counter()

    def ask(api: Api, first: int) -> list[float]:
        return [_pool(bench, api, f"{prefix}-{n}") for n in range(first, number, CALLERS)]

    calls = [partial(ask, api, first) for first, api in enumerate(apis)]
    took = [one for found in at_once(calls, CALLERS) for one in found]
    seconds = time.perf_counter() - begun
    say(f"  {number} requests by {CALLERS} callers in {seconds:.1f} s: {percentiles(took)}")
    spent = (bench.cpu_seconds_of("web") - before) / number
    say(f"  processor time per request in web: {spent * 1000:.2f} ms; {load_words()}")
    return number / seconds


def _pool(bench: Bench, api: Api, name: str) -> float:
    """Create a pool without pods, which has a Deployment and a Service; return the seconds."""
    template = {"ports": [{"name": "http", "port": 8080}]}
    body = {"operationID": name, "name": name, "specName": SPEC, "replicas": 0}
    begun = time.perf_counter()
    answer = api("POST", POOLS, {**body, "template": template})
    if answer.status != 202:
        raise SystemExit(f"a request returned {answer.status}: {answer.body}")
    return time.perf_counter() - begun


def compare(bench: Bench, sizes: argparse.Namespace) -> None:
    """The comparison of all resources without differences: time, memory, writes."""
    _post_all(bench, "settled", sizes.pools)
    unsettled = (
        "SELECT count(*) FROM inventory_stockpool WHERE deleted_at IS NULL"
        " AND (uid = '' OR phase NOT IN ('Ready', 'Empty') OR due_at <= now()"
        " OR observed_generation <> generation)"
    )
    bench.platform.wait(
        lambda: bench.platform.sql(unsettled)[0][0] == 0, "ready pools", SETTLE_SECONDS
    )
    pools = bench.platform.sql("SELECT count(*) FROM inventory_stockpool WHERE uid <> ''")[0][0]
    before = _versions(bench)
    begun = time.perf_counter()
    command = bench.platform.begin("reconcile_all")
    words = "; ".join(
        stream.read().strip() for stream in (command.stdout, command.stderr) if stream
    )
    _, status, used = os.wait4(command.pid, 0)
    seconds = time.perf_counter() - begun
    if status:
        raise SystemExit(f"reconcile_all ended with {status}: {words}")
    writes = len(set(before.items()) ^ set(_versions(bench).items()))
    say(f"reconcile_all of {pools} ready pools: {seconds:.1f} s, {words}")
    say(f"  {_verdict(seconds, COMPARE_SECONDS)}; objects written: {_verdict(writes, 0)}")
    mib = used.ru_maxrss / 1024
    say(f"  maximum memory {mib:.0f} MiB: {_verdict(mib, COMPARE_MIB)}")


def _versions(bench: Bench) -> dict[str, str]:
    """Return the version of every object that the platform writes for pools."""
    cluster = bench.platform.cluster()
    found = {
        one["metadata"]["uid"]: one["metadata"]["resourceVersion"]
        for kind in (STOCK_POOL, DEPLOYMENT, SERVICE)
        for one in cluster.list(kind).items
    }
    cluster.close()
    return found


PARTS: Final[Mapping[str, Callable[[Bench, argparse.Namespace], None]]] = {
    "list": lists,
    "post": posts,
    "compare": compare,
}


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(prog="make bench-api", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--rows", type=int, default=100_000, help="number of listed operations")
    parser.add_argument("--requests", type=int, default=200, help="lists per depth and filter")
    parser.add_argument("--posts", type=int, default=3_000, help="number of accepted requests")
    parser.add_argument("--pools", type=int, default=2_000, help="ready pools")
    options = parser.parse_args()
    describe_machine()
    for name, part in PARTS.items():
        if not options.parts or name in options.parts:
            with on_simulator() as bench:
                say(f"{name}; {load_words()}")
                part(bench, options)


if __name__ == "__main__":
    main()
