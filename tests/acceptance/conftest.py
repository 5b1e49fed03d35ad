"""The platforms of the acceptance tests; most tests of a process share one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuplatform.dev.embedded.data_directory import remove_data
from tests.acceptance.platform import RunningPlatform


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """The shared platform; a test restarts the processes that it kills."""
    folder: Path = tmp_path_factory.mktemp("platform")
    platform = RunningPlatform(folder)
    try:
        platform.start_all()
        platform.add_spec()
        yield platform
    finally:
        platform.stop_all()
        remove_data(folder / "data")


@pytest.fixture
def platform(running: RunningPlatform) -> Iterator[RunningPlatform]:
    """The shared platform, ready; no process may end during the test unless the test kills it."""
    running.wait(running.is_ready, "the platform to be ready", 90)
    yield running
    assert running.ended() == []


@pytest.fixture
def own_platform(tmp_path: Path) -> Iterator[RunningPlatform]:
    """A platform for one test, so that the test owns all its objects."""
    platform = RunningPlatform(tmp_path)
    try:
        platform.start_all()
        platform.add_spec()
        yield platform
    finally:
        platform.stop_all()
        remove_data(tmp_path / "data")
