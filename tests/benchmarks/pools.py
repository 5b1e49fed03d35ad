"""`make bench-pools`: creation of stock pools, and the idle cost of the platform.

Prints percentiles with the machine and the versions. Figures of different runs or machines are not
comparable; ratios within one run are.
"""

import contextlib
import os
import platform as machine
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from gpuplatform.kube.kinds import STOCK_POOL
from tests.acceptance.platform import POOLS, RunningPlatform

REQUESTS = 400
PER_SECOND = 20
REST_SECONDS = 30


def percentiles(seconds: Sequence[float]) -> str:
    """Return p50, p95, p99 and the maximum, in milliseconds."""
    cuts = statistics.quantiles(seconds, n=100)
    values = (cuts[49], cuts[94], cuts[98], max(seconds))
    words = ("p50", "p95", "p99", "max")
    return "  ".join(
        f"{word} {value * 1000:.1f} ms" for word, value in zip(words, values, strict=True)
    )


def watch_created(running: RunningPlatform, seen: dict[str, float], stop: threading.Event) -> None:
    """Record when a watch first reports each resource."""
    cluster = running.cluster()
    resource_version = cluster.list(STOCK_POOL).resource_version
    while not stop.is_set():
        stream = cluster.watch(STOCK_POOL, resource_version=resource_version, timeout_seconds=5)
        for event in stream:
            resource_version = event.resource_version or resource_version
            if event.type == "ADDED":
                seen.setdefault(event.object["metadata"]["name"], time.perf_counter())


def post_steadily(running: RunningPlatform) -> tuple[list[float], dict[str, float]]:
    """Send the requests at a steady rate; return their times and when each was accepted."""
    took, accepted = [], {}
    pause = threading.Event()
    begun = time.perf_counter()
    for number in range(REQUESTS):
        pause.wait(max(0.0, begun + number / PER_SECOND - time.perf_counter()))
        name = f"bench-{number}"
        body = {"operationID": name, "name": name, "specName": "g1.1", "replicas": 0}
        before = time.perf_counter()
        status = running.request("POST", POOLS, body).status
        accepted[name] = time.perf_counter()
        took.append(accepted[name] - before)
        if status != 202:
            raise SystemExit(f"a request returned {status}")
    return took, accepted


def memory_mib(pids: Sequence[int]) -> float:
    """Return the proportional set size of the processes."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


def cpu_seconds(pids: Sequence[int]) -> float:
    """Return the processor time of the processes."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):  # It has ended.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def at_rest(running: RunningPlatform) -> tuple[float, float]:
    """Return the memory in MiB and the share of one core of an idle platform."""
    pids = running.processes()
    before = cpu_seconds(pids)
    threading.Event().wait(REST_SECONDS)
    return memory_mib(pids), (cpu_seconds(pids) - before) / REST_SECONDS


def main() -> None:
    """Run the benchmark and print its figures."""
    say = sys.stdout.write
    say(f"{machine.platform()}, {os.cpu_count()} cores, Python {machine.python_version()}, ")
    say(", ".join(f"{name} {version(name)}" for name in ("Django", "celery", "kubernetes")) + "\n")
    with tempfile.TemporaryDirectory(prefix="bench-pools-") as folder:
        Path(folder).chmod(0o755)
        running = RunningPlatform(Path(folder), is_like_production=True)
        try:
            running.start_all()
            running.add_spec("g1.1")
            report(running)
        finally:
            running.stop_all()


def report(running: RunningPlatform) -> None:
    """Measure one running platform."""
    say = sys.stdout.write
    threading.Event().wait(5)
    mib, share = at_rest(running)
    say(f"idle: {mib:.0f} MiB PSS, {share:.1%} of one core over {REST_SECONDS} s\n")
    seen: dict[str, float] = {}
    stop = threading.Event()
    watcher = threading.Thread(target=watch_created, args=(running, seen, stop))
    watcher.start()
    took, accepted = post_steadily(running)
    running.wait(lambda: len(seen) >= REQUESTS, "all resources to exist", 120)
    stop.set()
    watcher.join()
    say(f"POST at {PER_SECOND}/s, {REQUESTS} requests: {percentiles(took)}\n")
    made = [max(seen[name] - moment, 0.0) for name, moment in accepted.items()]
    say(f"accepted → resource exists: {percentiles(made)}\n")


if __name__ == "__main__":
    main()
