"""Containers of known images that run as local processes (see `programs`).

The processes of a pod share a private directory. When this process exits, the kernel kills them,
and a guard process deletes the directories, because they contain secrets.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import gpuplatform
from gpuplatform.dev.embedded.children import die_with_parent
from gpuplatform.dev.embedded.ports import free_port
from gpuplatform.dev.embedded.processes import IS_LINUX
from gpuplatform.dev.simulator.kubelet.client import ApiClient, Manifest
from gpuplatform.dev.simulator.kubelet.probes import stop_hook
from gpuplatform.dev.simulator.kubelet.probing import Prober, request
from gpuplatform.dev.simulator.kubelet.programs import (
    ProcessReport,
    environment,
    log_file,
    module_of,
    own_variables,
    pod_ports,
    running_programs,
    volume_folders,
)
from gpuplatform.dev.simulator.kubelet.secrets import SecretReader

log = logging.getLogger(__name__)

LOG_TAIL_BYTES: Final = 64 * 1024
"""Size of the end of a log that becomes part of the report of an ended process."""

_ROOT: Final = Path(gpuplatform.__file__).parents[1]
_RUN: Final = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1));"
    " runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)
"""Program that runs a module of a folder, in an interpreter that ignores its environment."""
_GUARD: Final = 'cat; rm -rf -- "$1"'
"""Shell script that deletes a directory when its input is closed or this process exits."""


class ContainerProcess:
    """The process of one container."""

    def __init__(
        self, container: Manifest, restarts: int, process: asyncio.subprocess.Process, log: Path
    ) -> None:
        self.container = container
        self.restarts = restarts
        self.process = process
        self.log = log
        self.prober: Prober | None = None
        self.watching: asyncio.Task[None] | None = None
        self.stopping: asyncio.Task[None] | None = None

    def report(self) -> ProcessReport:
        """Return the current state of the process."""
        code = self.process.returncode
        if code is not None and code < 0:
            code = 128 - code
        prober = self.prober
        return ProcessReport(
            is_ready=prober is not None and prober.is_ready and code is None,
            is_started=prober is not None and prober.is_started,
            exit_code=code,
            failure=prober.failure if prober else None,
            output="" if code is None else tail(self.log, LOG_TAIL_BYTES),
        )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process group if it exists."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """Kill the process group."""
        if self.process.returncode is None:
            self.signal(signal.SIGKILL)
        for task in (self.watching, self.stopping):
            if task is not None:
                task.cancel()


def tail(path: Path, size: int) -> str:
    """Return at most the last `size` bytes of a file."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - size))
        return file.read().decode("utf-8", "replace")


class PodProcesses:
    """The processes, the directory and the ports of a pod."""

    def __init__(self, folder: Path, pod: Manifest) -> None:
        self.folder = folder
        self.ports = {port: free_port() for port in pod_ports(pod)}
        self.children: dict[str, ContainerProcess] = {}

    def kill(self) -> None:
        """Kill all processes and delete the directory."""
        for child in self.children.values():
            child.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Processes:
    """The processes of all pods. `wake` is called with the UID of each changed pod."""

    def __init__(self, client: ApiClient, wake: Callable[[str], None]) -> None:
        self._secrets = SecretReader(client)
        self._wake = wake
        self._pods: dict[str, PodProcesses] = {}
        self._root: Path | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def reports(self, pod: Manifest) -> Mapping[str, ProcessReport]:
        """Return the state of each container of a pod that is a process, by container name."""
        local = self._pods.get(pod["metadata"]["uid"])
        if local is None:
            return {}
        return {
            name: child.report()
            for name, restarts in running_programs(pod).items()
            if (child := local.children.get(name)) and child.restarts == restarts
        }

    def log(self, uid: str, name: str, restarts: int) -> Path | None:
        """Return the log file of a container that is a process, or `None` if it does not exist."""
        local = self._pods.get(uid)
        path = None if local is None else local.folder / log_file(name, restarts)
        return path if path is not None and path.is_file() else None

    async def sync(self, pod: Manifest) -> None:
        """Start and stop processes according to the status of a pod.

        Raises:
            ClusterError: If a Secret cannot be read. Its processes are not started.
        """
        uid = pod["metadata"]["uid"]
        desired = running_programs(pod)
        local = self._pods.get(uid)
        if local is None and not desired:
            return
        if local is None:
            local = self._pods[uid] = PodProcesses(self._folder(uid), pod)
            await self._fill(local, pod)
        for name, child in list(local.children.items()):
            if desired.get(name) != child.restarts:
                child.kill()
                del local.children[name]
        if "deletionTimestamp" in pod["metadata"]:
            self._begin_termination(local, pod)
            return
        for name, restarts in desired.items():
            if name not in local.children:
                local.children[name] = await self._start(local, pod, name, restarts)

    def forget(self, uid: str) -> None:
        """Kill the processes of a deleted pod."""
        local = self._pods.pop(uid, None)
        if local is not None:
            local.kill()

    def stop_all(self) -> None:
        """Kill all processes and delete their directories."""
        for uid in list(self._pods):
            self.forget(uid)
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()
            self._guard.wait()

    # Files

    def _folder(self, uid: str) -> Path:
        """Create the directory of a pod."""
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(prefix="gpu-pods-"))
            self._guard = subprocess.Popen(
                ["sh", "-c", _GUARD, "sh", str(self._root)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        folder = self._root / uid
        folder.mkdir(mode=0o700)
        return folder

    async def _fill(self, local: PodProcesses, pod: Manifest) -> None:
        """Create the volumes of a pod, including the content of Secrets."""
        folders = volume_folders(pod)
        with contextlib.ExitStack() as unless_filled:
            unless_filled.callback(self.forget, pod["metadata"]["uid"])
            for volume in pod["spec"].get("volumes") or []:
                folder = local.folder / folders[volume["name"]]
                folder.mkdir(mode=0o700)
                if "secret" in volume:
                    await self._write_secret(folder, pod, volume["secret"]["secretName"])
            unless_filled.pop_all()

    async def _write_secret(self, folder: Path, pod: Manifest, name: str) -> None:
        data = await self._secrets.read("Secret", pod["metadata"]["namespace"], name)
        for key, content in data.items():
            file = folder / key
            file.touch(mode=0o600)
            file.write_bytes(content)

    # Processes

    async def _start(
        self, local: PodProcesses, pod: Manifest, name: str, restarts: int
    ) -> ContainerProcess:
        container = next(one for one in pod["spec"]["containers"] if one["name"] == name)
        secrets = await self._secrets.variables(pod, container)
        variables = {
            "PATH": os.environ.get("PATH", ""),
            **own_variables(environment(pod, container, local.ports, secrets)),
        }
        path = local.folder / log_file(name, restarts)
        with path.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-B", "-c", _RUN, str(_ROOT), module_of(container)),
                env=variables,
                cwd=local.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_terminate_with_parent(),
            )
        child = ContainerProcess(container, restarts, process, path)
        uid = pod["metadata"]["uid"]
        child.prober = Prober(container, local.ports, lambda: self._wake(uid))
        grace = pod["spec"].get("terminationGracePeriodSeconds", 30)
        child.watching = asyncio.create_task(self._watch(uid, child, child.prober, grace))
        return child

    async def _watch(
        self, uid: str, child: ContainerProcess, prober: Prober, grace: float
    ) -> None:
        """Ask the probes until the process exits. Stop it if they require a restart."""
        tasks = [
            asyncio.create_task(prober.run()),
            asyncio.create_task(_restart(child, prober, grace)),
        ]
        try:
            await child.process.wait()
        finally:
            for task in tasks:
                task.cancel()
        self._wake(uid)

    def _begin_termination(self, local: PodProcesses, pod: Manifest) -> None:
        grace = pod["metadata"].get("deletionGracePeriodSeconds") or 0
        for child in local.children.values():
            if child.stopping is None:
                child.stopping = asyncio.create_task(_stop(child, local.ports, grace))


async def _stop(child: ContainerProcess, ports: Mapping[int, int], grace: float) -> None:
    """Call the preStop hook, and then send SIGTERM. The deletion of the pod kills the process."""
    hook = stop_hook(child.container)
    if hook is not None:
        await request(hook, ports, grace)
    child.signal(signal.SIGTERM)


async def _restart(child: ContainerProcess, prober: Prober, grace: float) -> None:
    """Stop the process when its probes require a restart."""
    await prober.must_restart.wait()
    child.signal(signal.SIGTERM)
    await asyncio.sleep(grace)
    child.signal(signal.SIGKILL)


def _terminate_with_parent() -> Callable[[], None] | None:
    parent = os.getpid()

    def in_child() -> None:
        die_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    return in_child if IS_LINUX else None
