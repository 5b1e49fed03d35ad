"""One node: its namespaces, and its programs, which a test can kill and start again."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from gpuplatform.kube.kinds import Manifest
from tests.cluster.controlplane.flags import SERVICE_NETWORK
from tests.cluster.controlplane.programs import CannotStart
from tests.node import configuration, network
from tests.node.cgroups import ControlGroups
from tests.node.runs import note_groups

FOLDER = Path(__file__).resolve().parent
PROGRAMS = "/opt/programs"
START_SECONDS = 60.0
PAUSE_SECONDS = 0.05
GPUS = 8
PRODUCT = "NVIDIA-H100-80GB-HBM3"
UNSHARED = ("cgroup", "ipc", "mount", "net", "pid", "uts")
ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin",
    "HOME": "/root",
    # Fewer garbage collections: the processes live for minutes.
    "GOGC": "400",
    "GOMEMLIMIT": "1GiB",
}
CHILD = (sys.executable, "-S", "-E", str(FOLDER / "child.py"))


class Node:
    """A node of a cluster; `folder` has its files, and `logs` the logs of its programs."""

    def __init__(self, number: int, folder: Path, logs: Path) -> None:
        self.name = f"real-node-{number}"
        self.number = number
        self.address = network.node_address(number)
        self.process = 0
        """The id of the node's process 1."""
        self.folder = folder / self.name
        self._logs = logs / self.name
        self._run = folder
        self._groups = ControlGroups(f"gpuplatform-{folder.name}-{self.name}")
        self._holder: subprocess.Popen[str] | None = None
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def prepare(self, texts: dict[str, str], programs: dict[str, Path]) -> None:
        """Write the files of the node. `programs` has those that are not in a package."""
        for name in ("root", "programs", "containerd", "kubelet", "logs"):
            (self.folder / name).mkdir(parents=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        configuration.write(self.folder / "etc", texts)
        for name, path in programs.items():
            os.link(path, self.folder / "programs" / name)

    def boot(self, packages: Path) -> None:
        """Create the namespaces with the node's process 1, and connect the network.

        Raises:
            CannotStart: with the last lines of the log of process 1.
        """
        note_groups(self._run, self._groups.folders)
        self._groups.create()
        unshare = ["unshare", "--fork", "--kill-child=KILL", *(f"--{name}" for name in UNSHARED)]
        script = [str(FOLDER / "init.sh"), self.name, str(self.folder), str(packages)]
        with self._log("init") as log:
            self._holder = subprocess.Popen(
                self._child(self._groups.folders, [*unshare, "sh", *script, *self._groups.names]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self._holder.stdout is not None
        with self._holder.stdout as output:
            # Without a line the script has failed.
            if output.readline().strip() != "ready":
                raise CannotStart(f"{self.name} did not start: {self.last_lines('init')}")
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        self.process = int(children.read_text())
        self._groups.settle()
        network.connect(self.number, self.process, SERVICE_NETWORK)

    def start(self, name: str, *command: str) -> None:
        """Start a program in the node; its log has its name."""
        with self._log(name) as log:
            self._running[name] = subprocess.Popen(
                self._entered(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=ENVIRONMENT,
                start_new_session=True,
            )

    def start_runtime(self) -> None:
        """Start containerd."""
        self.start("containerd", "containerd", "--config", f"/etc/{configuration.CONTAINERD}")

    def wait_for_runtime(self) -> None:
        """Wait until containerd responds."""
        self.wait(lambda: self.run("ctr", "version").returncode == 0, "containerd")

    def import_images(self, archives: Sequence[Path]) -> None:
        """Import images, so that no registry is asked for them."""
        for path in archives:
            with path.open("rb") as archive:
                done = self.run("ctr", "-n", "k8s.io", "images", "import", "-", stdin=archive)
            if done.returncode != 0:
                raise CannotStart(f"{self.name} cannot import {path.name}: {done.stdout.decode()}")

    def start_kubelet(self) -> None:
        """Start the kubelet."""
        self.start(
            "kubelet",
            f"{PROGRAMS}/kubernetes",
            "kubelet",
            f"--config=/etc/{configuration.KUBELET}",
            f"--kubeconfig=/etc/{configuration.KUBELET_KUBECONFIG}",
            f"--node-ip={self.address}",
            f"--hostname-override={self.name}",
            f"--node-labels=nvidia.com/gpu.product={PRODUCT}",
            "-v=2",
        )

    def start_proxy(self) -> None:
        """Start kube-proxy."""
        self.start(
            "kube-proxy",
            f"{PROGRAMS}/kubernetes",
            "kube-proxy",
            f"--config=/etc/{configuration.PROXY}",
        )

    def start_gpus(self) -> None:
        """Start the device plugin; its GPUs are only names."""
        self.start(
            "gpu-plugin",
            f"{PROGRAMS}/kubernetes",
            "gpu-plugin",
            f"--count={GPUS}",
            f"--prefix={self.gpu_prefix}",
            f"--unhealthy=/etc/{configuration.UNHEALTHY_GPUS}",
        )

    def start_router(self) -> None:
        """Start kube-router, which enforces NetworkPolicies. The node must be registered."""
        self.start(
            "kube-router",
            f"{PROGRAMS}/kube-router",
            "--run-router=false",
            "--run-service-proxy=false",
            "--run-firewall=true",
            f"--kubeconfig=/etc/{configuration.ROUTER_KUBECONFIG}",
            f"--hostname-override={self.name}",
            f"--service-cluster-ip-range={SERVICE_NETWORK}",
        )

    @property
    def gpu_prefix(self) -> str:
        """The beginning of the names of the node's GPUs."""
        return f"GPU-{self.name}"

    def set_gpu_health(self, number: int, *, is_healthy: bool) -> None:
        """Make a GPU healthy or unhealthy."""
        mark = self.folder / "etc" / configuration.UNHEALTHY_GPUS / f"{self.gpu_prefix}-{number}"
        if is_healthy:
            mark.unlink(missing_ok=True)
        else:
            mark.touch()

    def run(
        self, *command: str, stdin: IO[bytes] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command in the node until it ends; its errors are in its output."""
        return subprocess.run(
            self._entered(command),
            stdin=stdin or subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=ENVIRONMENT,
            check=False,
        )

    def signal_container(self, pod: Manifest, name: str) -> None:
        """Send a signal to process 1 of the first container of a pod."""
        container = pod["status"]["containerStatuses"][0]["containerID"].partition("://")[2]
        tasks = self.run("ctr", "-n", "k8s.io", "tasks", "ls").stdout.decode()
        fields = next(line.split() for line in tasks.splitlines() if line.startswith(container))
        self.run("kill", f"-{name}", fields[1])

    def kill(self, name: str) -> None:
        """Kill a program with SIGKILL and wait until it has ended."""
        entered = self._running.pop(name)
        children = Path(f"/proc/{entered.pid}/task/{entered.pid}/children")
        for process in children.read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        entered.wait()

    def check_alive(self) -> None:
        """Check that no program has ended.

        Raises:
            CannotStart: a program has ended; with the last lines of its log.
        """
        for name, process in self._running.items():
            if process.poll() is not None:
                lines = self.last_lines(name)
                raise CannotStart(f"{name} of {self.name} ended: {lines}")
        if self._holder is not None and self._holder.poll() is not None:
            raise CannotStart(f"{self.name} ended.")

    def wait(self, met: Callable[[], bool], what: str) -> None:
        """Wait until `met` returns true.

        Raises:
            CannotStart: a program has ended, or the timeout has passed.
        """
        deadline = time.monotonic() + START_SECONDS
        while not met():
            self.check_alive()
            if time.monotonic() > deadline:
                lines = self.last_lines(what)
                raise CannotStart(f"{what} of {self.name} was not ready in time: {lines}")
            time.sleep(PAUSE_SECONDS)

    def stop(self) -> None:
        """End the node: the end of its process 1 ends all others."""
        if self._holder is None:
            return
        self._holder.kill()
        self._holder.wait()
        for process in self._running.values():
            process.wait()
        self._running.clear()
        self._holder = None

    def last_lines(self, name: str) -> str:
        """Return the end of a program's log."""
        path = self._logs / f"{name}.log"
        lines = path.read_text("utf-8", "replace").splitlines() if path.exists() else []
        return " | ".join(lines[-5:]) or "no output"

    def _log(self, name: str) -> IO[bytes]:
        return (self._logs / f"{name}.log").open("ab")

    def _entered(self, command: Sequence[str]) -> list[str]:
        enter = ["nsenter", "--target", str(self.process), "--all", "--wd=/", "--"]
        return self._child(self._groups.joined, [*enter, *command])

    @staticmethod
    def _child(groups: Sequence[Path], command: Sequence[str]) -> list[str]:
        return [*CHILD, *map(str, groups), "--", *command]
