"""Only processes that the runner verifiably started receive a signal."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuplatform.dev.embedded.children import ChildRecord, Command, start_child, stop_leftovers
from gpuplatform.dev.embedded.processes import read_process, wait_until

pytestmark = pytest.mark.processes

RUNS_ON = (sys.executable, "-c", "import signal; signal.pause()")


@pytest.fixture
def foreign() -> Iterator[subprocess.Popen[bytes]]:
    """A process that no runner started, in a separate process group."""
    process = subprocess.Popen(RUNS_ON, start_new_session=True)
    yield process
    process.kill()
    process.wait()


def write_entry(record: ChildRecord, pid: int, started: str) -> None:
    entry = {"pid": pid, "started": started, "role": "web", "run": "0", "signal": signal.SIGTERM}
    record.path.write_text(json.dumps(entry) + "\n")


def test_a_process_with_a_reused_pid_gets_no_signal(
    foreign: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    record = ChildRecord(tmp_path / "children")
    write_entry(record, foreign.pid, "an earlier boot/1")

    stopped = stop_leftovers(record, grace_seconds=0.2)

    assert stopped == []
    assert foreign.poll() is None


def test_the_group_of_an_ended_leader_gets_no_signal_without_the_variable_of_the_run(
    tmp_path: Path,
) -> None:
    code = (
        "import subprocess, sys\n"
        "print(subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'],"
        " stdout=subprocess.DEVNULL).pid)"
    )
    leader = subprocess.Popen(
        [sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE, text=True
    )
    orphan = int(leader.communicate()[0])
    record = ChildRecord(tmp_path / "children")
    write_entry(record, leader.pid, "any")

    stopped = stop_leftovers(record, grace_seconds=0.2)

    assert stopped == []
    assert read_process(orphan) is not None
    os.kill(orphan, signal.SIGKILL)


def test_a_child_in_the_record_is_stopped(tmp_path: Path) -> None:
    record = ChildRecord(tmp_path / "children")
    record.begin()
    child = start_child(Command(argv=RUNS_ON), "web", record, subprocess.DEVNULL)

    stopped = stop_leftovers(record)

    assert stopped == ["web"]
    assert child.wait(5) == -signal.SIGTERM


def test_a_child_in_the_record_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    code = (
        "import signal, pathlib; signal.signal(15, signal.SIG_IGN)\n"
        f"pathlib.Path({str(ready)!r}).touch()\n"
        "while True: signal.pause()"
    )
    record = ChildRecord(tmp_path / "children")
    record.begin()
    command = Command(argv=(sys.executable, "-c", code))
    child = start_child(command, "web", record, subprocess.DEVNULL)
    assert wait_until(ready.exists, 10)

    stop_leftovers(record, grace_seconds=0.2)

    assert child.wait(5) == -signal.SIGKILL


def test_an_incomplete_last_line_of_the_record_is_skipped(tmp_path: Path) -> None:
    record = ChildRecord(tmp_path / "children")
    write_entry(record, 1, "x")
    with record.path.open("a") as file:
        file.write('{"pid": 12')

    entries = record.read()

    assert [entry["pid"] for entry in entries] == [1]


def test_without_a_record_nothing_is_stopped(tmp_path: Path) -> None:
    assert stop_leftovers(ChildRecord(tmp_path / "none")) == []
