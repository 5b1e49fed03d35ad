"""`make bench-simulator`: speed and memory of the simulated cluster.

Targets with 5,000 objects: a list of 500 in 50 ms, 300 writes per second on one core, 300 MB, a
start in one second. Targets with 1,000 pods on 100 nodes: 100 per second become Ready, 30 % of a
core at rest. Processor times are printed too, since elapsed times depend on the load.
"""

import contextlib
import os
import platform as machine
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gpuplatform.kube.kinds import CONFIG_MAP, DEPLOYMENT, POD
from tests.benchmarks.bench import load_words, say
from tests.benchmarks.pools import cpu_seconds
from tests.cluster.servers import process, wait_for
from tests.cluster.world import MERGE, Http, deployment, is_ready

OBJECTS, PAGE, LISTS, CHANGES = 5_000, 500, 20, 1_500
NODES, PODS_EACH, DEPLOYMENTS = 100, 20, 50
START_SECONDS, READY_SECONDS, REST_SECONDS = 30.0, 240.0, 30.0
NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of a block: elapsed seconds, and processor seconds of the server."""

    clock: float
    processor: float

    def a_second(self, count: int) -> str:
        """Return the rate as text."""
        busy = count / max(self.processor, 0.01)
        return f"{count / self.clock:.0f} per second ({busy:.0f} per second of processor time)"


@contextlib.contextmanager
def measured(pid: int, into: list[Spent]) -> Iterator[None]:
    """Append the cost of the block."""
    clock, processor = time.monotonic(), cpu_seconds([pid])
    yield
    into.append(Spent(time.monotonic() - clock, cpu_seconds([pid]) - processor))


def memory_mb(pid: int) -> float:
    """Return the resident memory in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextlib.contextmanager
def server(folder: Path) -> Iterator[tuple[int, Http, float]]:
    """Run the API server on the state in `folder`; yield process, client and start-up seconds."""
    kubeconfig, log = folder / "kubeconfig", folder / "server.log"
    kubeconfig.unlink(missing_ok=True)
    command = [sys.executable, "-m", "gpuplatform.dev.simulator.apiserver"]
    command += ["--state-dir", str(folder / "state"), "--kubeconfig", str(kubeconfig)]
    began = time.monotonic()
    with process(command, log) as running:
        wait_for(kubeconfig.is_file, running, log, START_SECONDS)
        http = Http(kubeconfig)
        assert http("GET", "/readyz").status == 200
        yield running.pid, http, time.monotonic() - began
        http.close()


def config_map(number: int) -> dict[str, Any]:
    return {"metadata": {"name": f"object-{number}"}, "data": {"number": str(number)}}


def write(http: Http, pid: int) -> None:
    """Create and patch objects."""
    spent: list[Spent] = []
    path = CONFIG_MAP.path(NAMESPACE)
    with measured(pid, spent):
        for number in range(OBJECTS):
            assert http("POST", path, config_map(number)).status == 201
    with measured(pid, spent):
        for number in range(CHANGES):
            patch = {"data": {"number": "changed"}}
            assert http("PATCH", f"{path}/object-{number}", patch, MERGE).status == 200
    say(f"creates: {spent[0].a_second(OBJECTS)}")
    say(f"patches: {spent[1].a_second(CHANGES)}")


def read(http: Http, pid: int) -> None:
    """List pages of the full server."""
    spent: list[Spent] = []
    for _ in range(LISTS):
        with measured(pid, spent):
            reply = http("GET", f"{CONFIG_MAP.path(NAMESPACE)}?limit={PAGE}")
        assert len(reply.body["items"]) == PAGE
    clock = statistics.median(one.clock for one in spent)
    processor = sum(one.processor for one in spent) / LISTS
    say(
        f"a list of {PAGE} of {OBJECTS}: {clock * 1000:.0f} ms"
        f" ({processor * 1000:.0f} ms of processor time)"
    )


def play(folder: Path, http: Http, pid: int) -> None:
    """Run many pods on many nodes, then measure the idle cost."""
    log = folder / "kubelet.log"
    command = [sys.executable, "-m", "gpuplatform.dev.simulator.kubelet", "--start-delay", "0"]
    command += ["--kubeconfig", str(folder / "kubeconfig"), "--nodes", str(NODES)]
    with process(command, log) as kubelet:
        wait_for(lambda: ready_nodes(http) == NODES, kubelet, log, READY_SECONDS)
        spent: list[Spent] = []
        with measured(kubelet.pid, spent), measured(pid, spent):
            for number in range(DEPLOYMENTS):
                body = deployment(f"bench-{number}", replicas=PODS_EACH)
                assert http("POST", DEPLOYMENT.path(NAMESPACE), body).status == 201
            total = DEPLOYMENTS * PODS_EACH
            wait_for(lambda: ready_pods(http) == total, kubelet, log, READY_SECONDS)
        of_server, of_kubelet = spent
        say(
            f"{total} pods on {NODES} nodes Ready: {total / of_server.clock:.0f} per second"
            f" (processor: kubelet {of_kubelet.processor:.1f} s, server"
            f" {of_server.processor:.1f} s, in {of_server.clock:.1f} s)"
        )
        threading.Event().wait(5)
        spent.clear()
        with measured(kubelet.pid, spent), measured(pid, spent):
            threading.Event().wait(REST_SECONDS)
        shares = [one.processor / one.clock * 100 for one in spent]
        say(f"idle: kubelet {shares[1]:.1f} % and server {shares[0]:.1f} % of a core")
        say(f"memory: kubelet {memory_mb(kubelet.pid):.0f} MB, server {memory_mb(pid):.0f} MB")


def ready_nodes(http: Http) -> int:
    return sum(map(is_ready, http("GET", "/api/v1/nodes").body["items"]))


def ready_pods(http: Http) -> int:
    return sum(map(is_ready, http("GET", POD.path(NAMESPACE)).body["items"]))


def main() -> None:
    """Run the benchmark and print its figures."""
    say(
        f"{machine.platform()}, {os.cpu_count()} cores, Python {machine.python_version()}, aiohttp"
        f" {version('aiohttp')}; {load_words()}"
    )
    with tempfile.TemporaryDirectory(prefix="bench-simulator-") as name:
        folder = Path(name)
        with server(folder) as (pid, http, seconds):
            say(f"start, empty: {seconds:.2f} s")
            write(http, pid)
            read(http, pid)
            say(f"memory with {OBJECTS} objects: {memory_mb(pid):.0f} MB")
        with server(folder) as (pid, http, seconds):
            busy = cpu_seconds([pid])
            say(f"start, with {OBJECTS} objects: {seconds:.2f} s ({busy:.2f} s of processor time)")
            read(http, pid)
        (folder / "played").mkdir()
        with server(folder / "played") as (pid, http, _):
            play(folder / "played", http, pid)
    say(load_words())


if __name__ == "__main__":
    main()
