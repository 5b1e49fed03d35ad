"""Starts the servers of the suite, each with simulated nodes.

Each server is a process with a kubeconfig, started as on the command line.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gpuplatform.deployment.installation import CRDS
from gpuplatform.dev.embedded.ports import free_port
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import Manifest
from gpuplatform.kube.modes import KubeMode, open_cluster
from tests.cluster.controlplane import launcher
from tests.cluster.world import Http, condition

REPOSITORY = Path(__file__).resolve().parents[2]
NODES, GPUS = 3, 8
START_SECONDS = 60.0
BUILD_SECONDS = 1500.0
STOP_SECONDS = 15.0
PREFIX = "gpuplatform-cluster-tests-"
SLICE, SLICES = "nvidia.com/mig-1g.10gb", 2
KUBELET = ["--nodes", str(NODES), "--gpus", str(GPUS), "--lease", "4"]
KUBELET += ["--resources", f"{SLICE}={SLICES}"]
DIE_WITH_PARENT = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execv(sys.argv[1], sys.argv[1:])"
)
"""SIGTERM at the end of the parent, so that a program stops its children."""
FAST = ["--start-delay", "0.2", "--back-off", "1"]
"""Short delays of the simulated nodes."""


class CannotStart(Exception):
    """A program has ended; the message has the end of its log."""


@contextlib.contextmanager
def process(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the block, or this process, ends."""
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
    """Wait until `ready` returns true.

    Raises:
        CannotStart: the program ended, or the timeout has passed.
    """
    pause = threading.Event()
    deadline = time.monotonic() + seconds
    while not ready():
        if running.poll() is not None or time.monotonic() > deadline:
            tail = log.read_text("utf-8", "replace")[-1500:]
            raise CannotStart(f"{log.stem} did not start:\n{tail}")
        pause.wait(0.05)


@contextlib.contextmanager
def simulator(folder: Path, _definitions: Sequence[Manifest]) -> Iterator[Path]:
    """Run the simulated API server; yield its kubeconfig.

    It is started twice, so the first versions are compacted, as on a long-running server. The
    definitions are not needed: its garbage collector knows new kinds immediately.
    """
    with _simulator(folder):
        pass
    with _simulator(folder) as kubeconfig:
        yield kubeconfig


@contextlib.contextmanager
def _simulator(folder: Path) -> Iterator[Path]:
    kubeconfig, log = folder / "kubeconfig", folder / "simulator.log"
    kubeconfig.unlink(missing_ok=True)
    port = free_port()
    command = [sys.executable, "-m", "gpuplatform.dev.simulator.apiserver", "--port", str(port)]
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
def control_plane(folder: Path, definitions: Sequence[Manifest]) -> Iterator[Path]:
    """Run a real control plane, built if necessary; yield its kubeconfig."""
    log, given = folder / "launcher.log", folder / "definitions.json"
    given.write_text(json.dumps(definitions))
    # It creates a folder, and deletes it even if this process is killed.
    command = [*launcher.COMMAND, "--definitions", str(given)]
    with process(command, log) as running:
        wait_for(lambda: b"ready;" in log.read_bytes(), running, log, BUILD_SECONDS)
        lines = log.read_text("utf-8").splitlines()
        yield next(Path(line) for line in lines if line.endswith("/kubeconfig"))


STARTERS = {"simulator": simulator, "controlplane": control_plane}


class Servers:
    """Starts each server at its first use and stops it at the end of the session.

    The kinds of the platform exist from the start, so that the garbage collector knows them and
    collects owned objects immediately.
    """

    def __init__(self, definitions: Sequence[Manifest] = CRDS) -> None:
        self._definitions = definitions
        self.installed: set[str] = set()
        """The servers on which the platform is installed."""
        self._stack = contextlib.ExitStack()
        self._kubeconfigs: dict[str, Path] = {}
        self._clients: dict[str, tuple[Cluster, Http]] = {}

    def kubeconfig(self, name: str) -> Path:
        """Return the kubeconfig of a server; start it if necessary."""
        if name not in self._kubeconfigs:
            _sweep()
            folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
            self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
            kubeconfig = self._stack.enter_context(STARTERS[name](folder, self._definitions))
            command = [sys.executable, "-m", "gpuplatform.dev.simulator.kubelet"]
            command += ["--kubeconfig", str(kubeconfig), *KUBELET, *FAST]
            log = folder / "kubelet.log"
            running = self._stack.enter_context(process(command, log))
            http = Http(kubeconfig)
            wait_for(lambda: _ready_nodes(http) == NODES, running, log, START_SECONDS)
            http.close()
            self._kubeconfigs[name] = kubeconfig
        return self._kubeconfigs[name]

    def clients(self, name: str) -> tuple[Cluster, Http]:
        """Return a client of the platform for the server, and one for raw requests."""
        if name not in self._clients:
            kubeconfig = self.kubeconfig(name)
            cluster, http = open_cluster(KubeMode.REQUIRED, str(kubeconfig)), Http(kubeconfig)
            assert cluster is not None
            self._stack.callback(cluster.close)
            self._stack.callback(http.close)
            self._clients[name] = cluster, http
        return self._clients[name]

    def stop(self) -> None:
        """Stop all servers."""
        self._stack.close()


def _sweep() -> None:
    """Delete the folders of killed runs."""
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


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False
