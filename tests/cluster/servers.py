"""Starts the servers that the suite runs on, each with simulated nodes.

Both are ordinary processes with a kubeconfig, started as a person starts them.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.cluster.world import Http, condition

REPOSITORY = Path(__file__).resolve().parents[2]
LAUNCHER = REPOSITORY / "tests" / "cluster" / "controlplane" / "launcher.py"
NODES, GPUS = 3, 8
START_SECONDS = 60.0
BUILD_SECONDS = 1500.0
STOP_SECONDS = 15.0
PREFIX = "gpuplatform-cluster-tests-"
KUBELET = ["--nodes", str(NODES), "--gpus", str(GPUS), "--lease", "4"]
DIE_WITH_PARENT = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execv(sys.argv[1], sys.argv[1:])"
)
"""SIGTERM when the parent ends, so that a program stops in order what it started itself."""
FAST = ["--start-delay", "0.2", "--back-off", "1"]
"""What takes seconds on a real node takes a fraction here."""


class CannotStart(Exception):
    """The message says what ended, with its last words."""


@contextlib.contextmanager
def process(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program for as long as the block lasts; it dies with this process, too."""
    with log.open("wb") as output:
        running = subprocess.Popen(
            [sys.executable, "-c", DIE_WITH_PARENT, *command],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"GPUPLATFORM_DEV": "1"},
        )
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def wait_for(
    ready: Callable[[], bool], running: subprocess.Popen[bytes], log: Path, seconds: float
) -> None:
    """Return when `ready` says so.

    Raises:
        CannotStart: the program ended, or time is up.
    """
    pause = threading.Event()
    deadline = time.monotonic() + seconds
    while not ready():
        if running.poll() is not None or time.monotonic() > deadline:
            words = log.read_text("utf-8", "replace")[-1500:]
            raise CannotStart(f"{log.stem} did not start:\n{words}")
        pause.wait(0.05)


@contextlib.contextmanager
def simulator(folder: Path) -> Iterator[Path]:
    """Run the embedded API server; yields its kubeconfig.

    It is the second start on its data, so that the first versions are compacted away, as they are
    in a server that has been up for long.
    """
    with _simulator(folder):
        pass
    with _simulator(folder) as kubeconfig:
        yield kubeconfig


@contextlib.contextmanager
def _simulator(folder: Path) -> Iterator[Path]:
    kubeconfig, log = folder / "kubeconfig", folder / "simulator.log"
    kubeconfig.unlink(missing_ok=True)
    port = _free_port()
    command = [sys.executable, "-m", "gpuplatform.simulator.apiserver", "--port", str(port)]
    command += ["--state-dir", str(folder / "state"), "--kubeconfig", str(kubeconfig)]
    with process(command, log) as running:
        wait_for(
            lambda: kubeconfig.is_file() and _answers(f"http://127.0.0.1:{port}/version"),
            running,
            log,
            START_SECONDS,
        )
        yield kubeconfig


@contextlib.contextmanager
def control_plane(folder: Path) -> Iterator[Path]:
    """Run a real control plane; yields its kubeconfig. Builds it if it was never built here."""
    log = folder / "launcher.log"
    # It makes a folder of its own, and removes it even when this process is killed.
    with process([sys.executable, str(LAUNCHER)], log) as running:
        wait_for(lambda: b"ready;" in log.read_bytes(), running, log, BUILD_SECONDS)
        lines = log.read_text("utf-8").splitlines()
        yield next(Path(line) for line in lines if line.endswith("/kubeconfig"))


STARTERS = {"simulator": simulator, "controlplane": control_plane}


class Servers:
    """Starts each server at its first use and keeps it to the end of the session."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._kubeconfigs: dict[str, Path] = {}

    def kubeconfig(self, name: str) -> Path:
        """Return the kubeconfig of the running server of this name."""
        if name not in self._kubeconfigs:
            _sweep()
            folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
            self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
            kubeconfig = self._stack.enter_context(STARTERS[name](folder))
            command = [sys.executable, "-m", "gpuplatform.simulator.kubelet"]
            command += ["--kubeconfig", str(kubeconfig), *KUBELET, *FAST]
            log = folder / "kubelet.log"
            running = self._stack.enter_context(process(command, log))
            http = Http(kubeconfig)
            wait_for(lambda: _ready_nodes(http) == NODES, running, log, START_SECONDS)
            http.close()
            self._kubeconfigs[name] = kubeconfig
        return self._kubeconfigs[name]

    def stop(self) -> None:
        """Stop all of them."""
        self._stack.close()


def _sweep() -> None:
    """Remove what runs left behind that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        process_id = folder.name.removeprefix(PREFIX).partition("-")[0]
        if not Path("/proc", process_id).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _ready_nodes(http: Http) -> int:
    nodes = http("GET", "/api/v1/nodes").body["items"]
    return sum(
        condition(node, "Ready").get("status") == "True" and not node["spec"].get("taints")
        for node in nodes
    )


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False
