"""The runner: invalid settings, one runner per data directory, and one full lifecycle."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuplatform.dev.embedded.children import ChildRecord
from gpuplatform.dev.embedded.data_directory import PROJECT_ROOT, DataDirectory, remove_data
from gpuplatform.dev.embedded.ports import LOOPBACK, free_port
from gpuplatform.dev.embedded.processes import all_processes, wait_until

pytestmark = [pytest.mark.processes, pytest.mark.xdist_group("acceptance")]

START_SECONDS = 240
STOP_SECONDS = 12
"""The documented 10, and a margin for a machine that runs other tests."""
PROCESSES = ("web", "worker", "beat", "controller", "results", "activator")
SERVER_SETTINGS = ("DATABASE_URL", "REDIS_URL", "KUBECONFIG", "KUBE_MODE", "PORT", "DEMO")


class Runner:
    """`make run` without make, with a separate data directory."""

    def __init__(self, data: Path) -> None:
        self.data = DataDirectory(data)
        self.lines: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread()
        self._grew = threading.Condition()

    def start(self, **settings: str) -> None:
        inherited = {k: v for k, v in os.environ.items() if k not in SERVER_SETTINGS}
        self.lines.clear()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gpuplatform.dev.embedded"],
            cwd=PROJECT_ROOT,
            env={**inherited, "GPUPLATFORM_DATA": str(self.data.path), **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, args=(self._process,))
        self._reader.start()

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None
        return self._process

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                with self._grew:
                    self.lines.append(line.rstrip())
                    self._grew.notify_all()
        with self._grew:
            self.lines.append("END")
            self._grew.notify_all()

    def wait_for_line(self, text: str, seconds: float = START_SECONDS) -> None:
        def is_there() -> bool:
            return any(text in line or line == "END" for line in self.lines)

        with self._grew:
            assert self._grew.wait_for(is_there, seconds), self.lines
        assert any(text in line for line in self.lines), self.lines

    def end(self, seconds: float = STOP_SECONDS) -> int:
        """Wait for the end and return the exit code."""
        code = self.process.wait(seconds)
        self._reader.join(seconds)
        return code

    def children(self) -> list[int]:
        """Return the running processes of the last run, with their child processes."""
        leaders = {int(entry["pid"]) for entry in ChildRecord(self.data.children).read()}
        return [process.pid for process in all_processes() if process.group in leaders]


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    runner = Runner(tmp_path / "data of a person")
    yield runner
    if runner._process and runner._process.poll() is None:
        runner._process.send_signal(signal.SIGTERM)
        runner.end(30)
    remove_data(runner.data.path)


def health(port: int) -> Any:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=10)
    connection.request("GET", "/api/v1/health")
    body = json.loads(connection.getresponse().read())
    connection.close()
    return body["data"]


def statuses_of_metrics(data: DataDirectory) -> dict[str, int]:
    """Return the response of each process in the list of targets to a scrape."""
    answers = {}
    for one in json.loads(data.metrics_targets.read_text()):
        with urllib.request.urlopen(f"http://{one['targets'][0]}/metrics", timeout=30) as answer:
            answers[one["labels"]["process"]] = answer.status
    return answers


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        pytest.param({"PORT": "eighty"}, "PORT=eighty is not a port", id="no port"),
        pytest.param({"KUBE_MODE": "real"}, "KUBE_MODE=real is not supported", id="no mode"),
        pytest.param({"GPUPLATFORM_DATA": "/proc/nothing"}, "cannot be written", id="no place"),
    ],
)
def test_a_wrong_setting_is_one_message(
    runner: Runner, settings: dict[str, str], sentence: str
) -> None:
    runner.start(**settings)

    assert runner.end(30) == 1
    assert len(runner.lines) == 2, runner.lines
    assert sentence in runner.lines[0]
    assert not runner.data.path.exists()


def test_a_requested_port_in_use_leaves_no_data_directory(runner: Runner) -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        runner.start(PORT=str(server.getsockname()[1]))

        assert runner.end(30) == 1
    assert not runner.data.path.exists()


def test_a_second_runner_on_the_same_data_is_one_message(runner: Runner) -> None:
    runner.data.create()
    with runner.data.owned():
        runner.start()
        code = runner.end(30)

    assert code == 1
    assert f"(process {os.getpid()})" in runner.lines[0]
    assert len(runner.lines) == 2, runner.lines


@pytest.mark.long
@pytest.mark.timeout(3 * START_SECONDS)
def test_the_lifecycle_of_a_data_directory(runner: Runner) -> None:
    """First run, `kill -9` of the runner, next run, SIGTERM: each with its visible output."""
    port = free_port()

    runner.start(PORT=str(port))
    runner.wait_for_line("The platform is ready.")

    assert health(port)["ready"] is True
    assert statuses_of_metrics(runner.data) == dict.fromkeys(PROCESSES, 200)
    password = runner.data.admin_password
    assert any(password.read_text().strip() in line for line in runner.lines)
    secrets = [password, runner.data.addresses, runner.data.path / "postgres-password"]
    assert [path.stat().st_mode & 0o777 for path in secrets] == [0o600] * 3
    assert sum("POST stockpools demo-" in line for line in runner.lines) == 3

    runner.process.kill()
    runner.end()
    left = runner.children()
    runner.start(PORT=str(port))
    runner.wait_for_line("The platform is ready.")

    assert not set(left) & set(runner.children())
    assert health(port)["ready"] is True
    assert not any(password.read_text().strip() in line for line in runner.lines)
    assert not any("demo" in line for line in runner.lines)

    runner.process.send_signal(signal.SIGTERM)
    assert runner.end() == 0
    assert wait_until(lambda: not runner.children(), 2), runner.lines
    assert not runner.data.addresses.exists()
