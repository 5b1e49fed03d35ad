"""Three rounds of `make chaos-u41`: all of the platform is killed at once, amid its work."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuplatform.embedded.data_directory import remove_data
from tests.acceptance.platform import RunningPlatform
from tests.chaos.u41 import Experiment

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("all killed"),
]

ROUNDS = 3


@pytest.fixture
def own_platform(tmp_path: Path) -> Iterator[RunningPlatform]:
    """A platform for one test, so that everything on it is the test's."""
    platform = RunningPlatform(tmp_path)
    try:
        platform.start_all()
        yield platform
    finally:
        platform.stop_all()
        remove_data(tmp_path / "data")


def test_after_the_death_of_all_processes_all_comes_about_once_and_what_was_ready_stays(
    own_platform: RunningPlatform,
) -> None:
    assert Experiment(own_platform, ROUNDS).run() == []
