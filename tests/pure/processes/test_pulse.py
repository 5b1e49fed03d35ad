"""The pulse of a worker: beaten by the main process, read by its copies."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from gpuplatform.processes.pulse import Pulse

ROOT = Path(__file__).parents[3]
FORKED = """
import os
from gpuplatform.processes.pulse import Pulse

times = iter((100.0, 130.0, 135.0))
shared = Pulse(times.__next__)
if os.fork():
    os.wait()
    next(times)  # The copy has used it.
    print(shared.age_seconds(), end="")
else:
    shared.beat()
"""
"""In a process without threads, as a worker is when it forks."""


def clock(*times: float) -> Iterator[float]:
    """Return the times one after the other."""
    return iter(times)


def test_a_copy_and_its_parent_share_the_time_of_the_last_beat() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.stderr) == ("5.0", "")


@pytest.mark.parametrize(("seconds", "is_fresh"), [(0.0, True), (39.0, True), (40.0, False)])
def test_it_is_fresh_for_as_long_as_a_part_counts_as_up(
    settings: Settings, *, seconds: float, is_fresh: bool
) -> None:
    settings.FRESH_SECONDS = 40
    shared = Pulse(clock(100.0, 100.0 + seconds).__next__)

    assert shared.is_fresh() is is_fresh
