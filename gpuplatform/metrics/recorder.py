"""Records counters and histograms in processes that fork: web and the workers.

Recording is off until the process opens its metrics port. Then each child writes to its own files
in one directory, and the child that handles a scrape adds them up. The client library is imported
when it is needed.
"""

import atexit
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from gpuplatform.metrics.declared import Metric, Type

if TYPE_CHECKING:
    from prometheus_client import Counter, Histogram

DIRECTORY_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the directory, which the client library reads at its import."""


class _Recorder:
    """The metrics of this process, which are created at their first use."""

    is_on = False
    lock = threading.Lock()
    created: dict[str, "Counter | Histogram"] = {}  # noqa: RUF012 - one per process


def turn_on(parent: Path | None, name: str) -> Path:
    """Enable recording. Return a new directory in `parent`, or in the temporary directory.

    Call this function once, before the process forks. The directory is deleted when the process
    ends.
    """
    if parent is not None:
        parent.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=f"gpuplatform-{name}-", dir=parent))
    os.environ[DIRECTORY_VARIABLE] = str(directory)
    _Recorder.is_on = True
    atexit.register(_remove, directory, os.getpid())
    return directory


def count(metric: Metric, **labels: str) -> None:
    """Increment a counter."""
    if _Recorder.is_on:
        counter = cast("Counter", _collector(metric))
        (counter.labels(**labels) if labels else counter).inc()


def observe(metric: Metric, seconds: float, **labels: str) -> None:
    """Record a duration in a histogram. A negative duration, from two clocks, counts as 0."""
    if _Recorder.is_on:
        histogram = cast("Histogram", _collector(metric))
        (histogram.labels(**labels) if labels else histogram).observe(max(seconds, 0.0))


class Outcome:
    """The outcome of a timed block, which is `error` unless the block sets another value."""

    name = "error"


@contextmanager
def timed(metric: Metric, **labels: str) -> Iterator[Outcome]:
    """Record the duration of the block in a histogram, with the outcome as a label."""
    outcome, started_at = Outcome(), time.monotonic()
    try:
        yield outcome
    finally:
        observe(metric, time.monotonic() - started_at, outcome=outcome.name, **labels)


def render() -> bytes:
    """Return the sums of the metrics of all children in the Prometheus text format."""
    from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415 - see above
    from prometheus_client.multiprocess import MultiProcessCollector  # noqa: PLC0415 - see above

    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # untyped in the library
    return generate_latest(registry)


def _collector(metric: Metric) -> "Counter | Histogram":
    """Return the collector of the metric. It is created at the first call."""
    with _Recorder.lock:
        if (found := _Recorder.created.get(metric.name)) is None:
            found = _Recorder.created[metric.name] = _create(metric)
        return found


def _create(metric: Metric) -> "Counter | Histogram":
    from prometheus_client import (  # noqa: PLC0415 - see above
        CollectorRegistry,
        Counter,
        Histogram,
    )

    registry = CollectorRegistry()  # Not the default registry, because scrapes read the files.
    if metric.type is Type.COUNTER:
        return Counter(metric.name, metric.help, metric.labels, registry=registry)
    return Histogram(
        metric.name, metric.help, metric.labels, registry=registry, buckets=metric.buckets
    )


def _remove(directory: Path, pid: int) -> None:
    """Delete the directory, unless this process is a child."""
    if os.getpid() == pid:
        shutil.rmtree(directory, ignore_errors=True)
