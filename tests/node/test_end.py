"""The end of a cluster of real nodes: nothing is left, also when its process is killed."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.node import runs

pytestmark = [pytest.mark.node, pytest.mark.timeout(180)]

END_SECONDS = 20.0


class RunningCluster:
    """A cluster that another process runs, as a person does."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.kubeconfig = Path(process.stdout.readline().strip())
        self.folder = self.kubeconfig.parent

    def groups(self) -> list[Path]:
        """Return the control groups of its node."""
        return [Path(line) for line in (self.folder / runs.GROUPS).read_text().splitlines()]

    def members(self) -> set[str]:
        """Return the processes of its node."""
        found: set[str] = set()
        for group in self.groups():
            for listed in group.rglob("cgroup.procs"):
                found |= {*listed.read_text().split()}
        return found


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningCluster]:
    """A cluster of one node in another process."""
    log = tmp_path / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.node", "up", "1"],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    try:
        cluster = RunningCluster(process)
        assert cluster.kubeconfig.is_file(), log.read_text()
        yield cluster
    finally:
        process.kill()
        process.communicate()


def descendants(process: int) -> set[str]:
    """Return the ids of a process and of all processes below it."""
    parents: dict[str, list[str]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(fields[1], []).append(status.parent.name)
    found, left = set[str](), [str(process)]
    while left:
        found.add(one := left.pop())
        left += parents.get(one, [])
    return found


def links() -> str:
    """Return the network links of this process's namespace."""
    listed = subprocess.run(
        ["ip", "-brief", "link"], capture_output=True, text=True, check=True
    ).stdout
    return "\n".join(sorted(line.split()[0] for line in listed.splitlines()))


def wait_for(met: Callable[[], bool]) -> None:
    pause, end = threading.Event(), time.monotonic() + END_SECONDS
    while not met():
        assert time.monotonic() < end
        pause.wait(0.05)


def have_ended(processes: set[str]) -> bool:
    return not any(Path("/proc", process).exists() for process in processes)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_cluster(running: RunningCluster, number: signal.Signals) -> None:
    links_before, groups = links(), running.groups()
    processes = descendants(running.process.pid) | running.members()
    assert len(processes) > 10
    assert running.members()

    running.process.send_signal(number)
    running.process.wait(END_SECONDS)

    wait_for(lambda: have_ended(processes))
    assert links() == links_before
    assert str(running.folder) not in Path("/proc/self/mountinfo").read_text()
    wait_for(lambda: not running.folder.exists())
    assert not any(group.exists() for group in groups)
