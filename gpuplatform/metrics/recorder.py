"""Counting in processes that fork: web and the workers.

Off until the process is told to serve metrics; then every copy of it writes to files of its own in
one directory, and whoever is asked adds them up. The client library is loaded only then.
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
"""Where the client library looks for the directory, at the moment at which it is imported."""


class _Recorder:
    """The metrics of this process, made when they are first used."""

    is_on = False
    lock = threading.Lock()
    made: dict[str, "Counter | Histogram"] = {}  # noqa: RUF012 - one a process


def turn_on(parent: Path | None, name: str) -> Path:
    """Begin to count, in a new directory below `parent`, or among the temporary ones.

    Called once, before the process makes copies of itself. The directory goes with the process.
    """
    if parent is not None:
        parent.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=f"gpuplatform-{name}-", dir=parent))
    os.environ[DIRECTORY_VARIABLE] = str(directory)
    _Recorder.is_on = True
    atexit.register(_remove, directory, os.getpid())
    return directory


def count(metric: Metric, **labels: str) -> None:
    """Add one to a counter."""
    if _Recorder.is_on:
        made = cast("Counter", _made(metric))
        (made.labels(**labels) if labels else made).inc()


def observe(metric: Metric, seconds: float, **labels: str) -> None:
    """Take up one value of a histogram; time that ran backwards between two clocks is none."""
    if _Recorder.is_on:
        made = cast("Histogram", _made(metric))
        (made.labels(**labels) if labels else made).observe(max(seconds, 0.0))


class Outcome:
    """How what is being timed ends; a fault unless it is said otherwise."""

    name = "fault"


@contextmanager
def timed(metric: Metric, **labels: str) -> Iterator[Outcome]:
    """Observe how long the block takes, under the label `outcome` that it sets."""
    outcome, begun_at = Outcome(), time.monotonic()
    try:
        yield outcome
    finally:
        observe(metric, time.monotonic() - begun_at, outcome=outcome.name, **labels)


def render() -> bytes:
    """Return what all copies of this process counted, in the format of Prometheus."""
    from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415 - see above
    from prometheus_client.multiprocess import MultiProcessCollector  # noqa: PLC0415 - see above

    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the library types it not
    return generate_latest(registry)


def _made(metric: Metric) -> "Counter | Histogram":
    made = _Recorder.made.get(metric.name)
    return _make(metric) if made is None else made


def _make(metric: Metric) -> "Counter | Histogram":
    from prometheus_client import CollectorRegistry, Counter, Histogram  # noqa: PLC0415 - see above

    with _Recorder.lock:
        if metric.name not in _Recorder.made:
            # Not the default registry: what is served comes from the files.
            registry = CollectorRegistry()
            _Recorder.made[metric.name] = (
                Counter(metric.name, metric.help, metric.labels, registry=registry)
                if metric.type is Type.COUNTER
                else Histogram(
                    metric.name,
                    metric.help,
                    metric.labels,
                    registry=registry,
                    buckets=metric.buckets,
                )
            )
        return _Recorder.made[metric.name]


def _remove(directory: Path, pid: int) -> None:
    """Remove the directory, unless this is a copy that ends."""
    if os.getpid() == pid:
        shutil.rmtree(directory, ignore_errors=True)
