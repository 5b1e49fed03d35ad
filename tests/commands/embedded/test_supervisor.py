"""The supervisor with small parts: order, one log, ended parts, signals, kill -9."""

import signal
from pathlib import Path

import pytest

from gpuplatform.dev.embedded.processes import read_process
from tests.commands.embedded.fake_runner import FakePlatform, all_gone

pytestmark = pytest.mark.processes

RUNS_ON = "import signal; print('up'); signal.pause()"
DEAF = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up')\n"
    "while True: signal.pause()"
)
WITH_CHILD = (
    "import subprocess, sys, signal\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
    "print('child', child.pid); signal.pause()"
)


def test_parts_start_after_what_they_need(platform: FakePlatform, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    server = f"import pathlib; pathlib.Path({str(ready)!r}).touch(); print('serving'); {RUNS_ON}"
    platform.start(
        {
            "web": {"code": RUNS_ON, "after": ["migrate"]},
            "migrate": {"code": "print('migrated')", "after": ["server"], "runs_once": True},
            "server": {"code": server, "ready_file": str(ready), "is_server": True},
        }
    )

    platform.read_until("READY")
    platform.ask(signal.SIGTERM)
    code = platform.end()

    shown = [line for line in platform.lines if "|" in line and "up" not in line]
    assert shown[:2] == ["server  | serving", "migrate | migrated"]
    assert code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_everything_with_exit_code_0(
    platform: FakePlatform, number: signal.Signals
) -> None:
    platform.start({"one": {"code": RUNS_ON}, "two": {"code": RUNS_ON, "is_server": True}})
    platform.read_until("READY")
    pids = platform.children()

    platform.ask(number)
    code = platform.end()

    assert code == 0
    assert len(pids) == 2
    assert all_gone(pids)
    assert "STOPPING" in platform.lines


def test_a_run_that_is_complete_when_ready_stops_by_itself(platform: FakePlatform) -> None:
    platform.start({"one": {"code": RUNS_ON}}, keeps_running=False)

    code = platform.end()

    assert code == 0
    assert "STOPPING" in platform.lines
    assert not any("SIG" in line for line in platform.lines)


@pytest.mark.parametrize(
    ("code", "expected", "sentence"),
    [
        pytest.param("raise SystemExit(7)", 7, "exited with code 7", id="a code of its own"),
        pytest.param("pass", 1, "exited with code 0", id="an end that was not wanted"),
        pytest.param(
            "import os; os.kill(os.getpid(), 9)", 137, "was killed by SIGKILL", id="a signal"
        ),
    ],
)
def test_the_end_of_a_part_stops_everything_with_its_exit_code(
    platform: FakePlatform, code: str, expected: int, sentence: str
) -> None:
    platform.start({"other": {"code": RUNS_ON}, "weak": {"code": code, "after": ["other"]}})

    assert platform.end() == expected
    assert f"run   | weak {sentence}, so everything stops." in platform.lines
    assert all_gone(platform.children())


def test_a_step_that_may_fail_stops_nothing(platform: FakePlatform) -> None:
    step = {"code": "raise SystemExit(3)", "runs_once": True, "may_fail": True}
    platform.start({"other": {"code": RUNS_ON}, "demo": step})

    platform.read_until("READY")
    platform.ask(signal.SIGTERM)

    assert platform.end() == 0


def test_a_part_that_is_not_ready_in_time_is_named(platform: FakePlatform, tmp_path: Path) -> None:
    never = {"code": RUNS_ON, "ready_file": str(tmp_path / "never"), "start_seconds": 0.3}
    platform.start({"slow": never})

    assert platform.end() == 1
    assert any("slow was not ready within" in line for line in platform.lines)


def test_a_part_that_ignores_sigterm_is_killed(platform: FakePlatform) -> None:
    times = {"others_seconds": 0.3, "servers_seconds": 0.3}
    platform.start({"deaf": {"code": DEAF}}, times=times)
    platform.read_until("deaf | up")
    pids = platform.children()

    platform.ask(signal.SIGTERM)

    assert platform.end() == 0
    assert any("deaf did not stop in time" in line for line in platform.lines)
    assert all_gone(pids)


def test_a_second_signal_does_not_wait(platform: FakePlatform) -> None:
    platform.start({"deaf": {"code": DEAF}}, times={"others_seconds": 60})
    platform.read_until("deaf | up")

    platform.ask(signal.SIGINT)
    platform.read_until("STOPPING")
    platform.ask(signal.SIGINT)

    assert platform.end(timeout=10) == 0


def test_children_that_a_part_leaves_behind_are_killed(platform: FakePlatform) -> None:
    platform.start({"parent": {"code": WITH_CHILD}})
    grandchild = int(platform.read_until("child").split()[-1])

    platform.ask(signal.SIGTERM)

    assert platform.end() == 0
    assert all_gone([grandchild])


def test_after_kill_9_of_the_runner_the_children_end(platform: FakePlatform) -> None:
    platform.start({"one": {"code": RUNS_ON}, "two": {"code": RUNS_ON}})
    platform.read_until("READY")
    pids = platform.children()

    platform.ask(signal.SIGKILL)
    platform.end()

    assert len(pids) == 2
    assert all_gone(pids)


def test_the_next_run_stops_what_a_killed_runner_left(platform: FakePlatform) -> None:
    platform.start({"deaf": {"code": DEAF}})
    platform.read_until("deaf | up")
    left = platform.children()
    platform.ask(signal.SIGKILL)
    platform.end()
    assert read_process(left[0]) is not None

    platform.start({"other": {"code": RUNS_ON}})
    output = platform.read_until("LEFTOVERS")
    platform.read_until("READY")
    platform.ask(signal.SIGTERM)
    platform.end()

    assert output.strip() == "LEFTOVERS deaf"
    assert all_gone(left)
