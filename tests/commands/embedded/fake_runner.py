"""A supervisor of small parts, in a separate process."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpuplatform.dev.embedded.children import ChildRecord
from gpuplatform.dev.embedded.processes import read_process, wait_until

PLATFORM = Path(__file__).parent / "fake_platform.py"
ROOT = Path(__file__).parents[3]


class FakePlatform:
    """A supervisor in a separate process."""

    def __init__(self, record: Path) -> None:
        self.record = record
        self.lines: list[str] = []
        self.process: subprocess.Popen[str] | None = None

    def start(self, parts: dict[str, dict[str, Any]], **description: Any) -> None:
        text = json.dumps({"record": str(self.record), "parts": parts, **description})
        self.process = subprocess.Popen(
            [sys.executable, str(PLATFORM), text],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        )

    def read_until(self, wanted: str) -> str:
        """Read the log up to the line that contains this text."""
        assert self.process is not None
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if wanted in line:
                return line
        raise AssertionError(f"the log ends without {wanted!r}: {self.lines}")

    def ask(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def end(self, timeout: float = 10) -> int:
        """Wait for the end and return the exit code."""
        assert self.process is not None
        rest, _nothing = self.process.communicate(timeout=timeout)
        self.lines += rest.splitlines()
        return self.process.returncode

    def children(self) -> list[int]:
        return [int(entry["pid"]) for entry in ChildRecord(self.record).read()]


def all_gone(pids: list[int]) -> bool:
    """Wait until all of the processes have ended."""
    return wait_until(lambda: not any(read_process(pid) for pid in pids), 5)
