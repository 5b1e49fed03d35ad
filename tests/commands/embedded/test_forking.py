"""Parts that are copies of the runner behave like programs of their own."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuplatform.dev.embedded.processes import IS_LINUX
from tests.commands.embedded.fake_runner import FakePlatform, all_gone

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not IS_LINUX, reason="elsewhere every part is a new interpreter"),
]

RUNS_ON = "import signal; print('up'); signal.pause()"
SHOWS_ITSELF = """
import os, signal, sys
from pathlib import Path
print("main", __name__, "argv", len(sys.argv))
print("mark", os.environ["MARK"], "path" if "PATH" in os.environ else "no path")
print("open", sorted(int(n) for n in os.listdir("/proc/self/fd"))[:-1])
print("leads", os.getpgid(0) == os.getpid() == os.getsid(0))
handlers = [signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGCHLD)]
print("handlers", [handler is signal.SIG_DFL for handler in handlers])
print("blocked", sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
print("title", Path("/proc/self/cmdline").read_bytes().decode().replace("\\0", " "))
print("shown")
signal.pause()
"""


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    def write(code: str) -> str:
        path = tmp_path / f"program {len(list(tmp_path.iterdir()))}.py"
        path.write_text(code)
        return str(path)

    return write


def test_a_copy_is_the_leader_of_a_group_with_nothing_of_the_runner(
    platform: FakePlatform, program: Callable[[str], str]
) -> None:
    path = program(SHOWS_ITSELF)
    platform.start({"other": {"code": RUNS_ON}, "copy": {"program": path, "after": ["other"]}})

    platform.read_until("shown")
    platform.ask(signal.SIGTERM)

    assert platform.end() == 0
    shown = [line.partition("| ")[2] for line in platform.lines if line.startswith("copy")]
    assert shown == [
        "main __main__ argv 1",
        "mark mine no path",
        "open [0, 1, 2]",
        "leads True",
        "handlers [True, True]",
        "blocked []",
        f"title {sys.executable} {path}",
        "shown",
    ]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("raise SystemExit(7)", 7, id="a code of its own"),
        pytest.param("pass", 1, id="an end that was not wanted"),
        pytest.param("1 / 0", 1, id="a fault"),
        pytest.param("import os; os.kill(os.getpid(), 9)", 137, id="a signal"),
    ],
)
def test_the_death_of_a_copy_stops_everything_and_the_exit_code_says_why(
    platform: FakePlatform, program: Callable[[str], str], code: str, expected: int
) -> None:
    weak = {"program": program(code), "after": ["other"]}
    platform.start({"other": {"program": program(RUNS_ON)}, "weak": weak})

    assert platform.end() == expected
    assert all_gone(platform.children())


def test_what_a_copy_does_at_its_exit_is_done(
    platform: FakePlatform, program: Callable[[str], str]
) -> None:
    code = "import atexit; atexit.register(print, 'left in order')"
    platform.start({"step": {"program": program(code), "runs_once": True}})

    platform.read_until("READY")
    platform.ask(signal.SIGTERM)
    platform.end()

    assert "step | left in order" in platform.lines


def test_after_kill_9_of_the_runner_the_copies_end(
    platform: FakePlatform, program: Callable[[str], str]
) -> None:
    path = program(RUNS_ON)
    platform.start({"one": {"program": path}, "two": {"program": path}})
    platform.read_until("READY")

    platform.ask(signal.SIGKILL)
    platform.end()

    assert all_gone(platform.children())
