"""One platform for all walks of a process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuplatform.dev.embedded.data_directory import remove_data
from tests.acceptance.platform import RunningPlatform


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """The platform; what a test kills it starts again."""
    folder: Path = tmp_path_factory.mktemp("platform")
    platform = RunningPlatform(folder)
    try:
        platform.start_all()
        yield platform
    finally:
        platform.stop_all()
        remove_data(folder / "data")


@pytest.fixture
def platform(running: RunningPlatform) -> Iterator[RunningPlatform]:
    """The platform, every part of it up, and none ended by what the test does to the others."""
    running.wait(running.is_ready, "the platform to be ready", 90)
    yield running
    assert running.ended() == []


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
