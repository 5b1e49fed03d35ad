"""The fake platform of a test, stopped at its end."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuplatform.dev.embedded.processes import send_signal
from tests.commands.embedded.fake_runner import FakePlatform


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[FakePlatform]:
    platform = FakePlatform(tmp_path / "children.jsonl")
    yield platform
    if platform.process:
        platform.process.kill()
        platform.process.communicate()
    for pid in platform.children():
        send_signal(pid, signal.SIGKILL, to_group=True)
