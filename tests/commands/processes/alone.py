"""One process of the platform without the others, started and ended by a test."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
DRAIN_SECONDS = 2
SLACK_SECONDS = 8
"""With a margin for a machine that runs other tests."""


class Process:
    """One process of the platform without the others."""

    def __init__(self, log: Path, *arguments: str, **environment: str) -> None:
        self.log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "GPUPLATFORM_DRAIN_SECONDS": str(DRAIN_SECONDS),
                    "PYTHONUNBUFFERED": "1",
                    **environment,
                },
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def stop(self) -> float:
        """Send SIGTERM; return the seconds until its end."""
        begun_at = time.monotonic()
        self.ask_to_end()
        self.wait()
        return time.monotonic() - begun_at

    def ask_to_end(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def wait(self) -> None:
        self._process.wait(DRAIN_SECONDS + SLACK_SECONDS)

    def wait_for_its_end(self, seconds: float) -> int:
        """Return the exit code of a process that ends without a signal."""
        return self._process.wait(seconds)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
