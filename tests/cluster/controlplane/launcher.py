"""Starts a real Kubernetes control plane: etcd, API server, controller manager, scheduler.

`python -m tests.cluster.controlplane.launcher --nodes 3` runs one with simulated nodes until
Ctrl-C and prints its kubeconfig. Tests start the same command. The programs come from
`KUBEBUILDER_ASSETS` if it is set; otherwise Go builds them (`programs.py`).

All files are in one directory. The programs end with this process, also when it is killed.
"""

import argparse
import base64
import contextlib
import ctypes
import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from gpuplatform.dev.embedded.ports import free_ports
from tests.cluster.controlplane import flags
from tests.cluster.controlplane.programs import CannotStart, programs, say

REPOSITORY = Path(__file__).resolve().parents[3]
COMMAND = (sys.executable, "-m", "tests.cluster.controlplane.launcher")
"""The command that runs a control plane, in the directory of the repository."""

START_SECONDS = 60.0
STOP_SECONDS = 5.0
ATTEMPTS = 3
"""Number of attempts; a port can be taken between finding and using it."""
PR_SET_PDEATHSIG = 1

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GARBAGE = {"GOGC": "400", "GOMEMLIMIT": "1GiB"}
"""Fewer garbage collections: the processes live for minutes."""


class ControlPlane:
    """A running control plane, as a context manager.

    `folder` contains certificates, tokens, kubeconfig, logs and data; by default it is a temporary
    one. With `is_unthrottled` its clients are not limited, for
    benchmarks. `definitions` are custom kinds that exist before the controllers start: the garbage
    collector discovers later ones only twice a minute. With `real_nodes` the API server listens in
    their network too, and pods get ServiceAccount tokens; `tests/node` starts the nodes.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        nodes: int = 0,
        gpus: int = 8,
        is_unthrottled: bool = False,
        definitions: Sequence[Mapping[str, Any]] = (),
        real_nodes: flags.RealNodes | None = None,
    ) -> None:
        self._commands = programs()
        self._owns_folder = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="controlplane-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.kubeconfig = self.folder / "kubeconfig"
        self._nodes = nodes
        self._gpus = gpus
        self._is_unthrottled = is_unthrottled
        self._definitions = definitions
        self._real_nodes = real_nodes
        self._token = secrets.token_urlsafe(24)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as unless_started:
            unless_started.callback(self.stop)
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    self._start()
                    break
                except CannotStart:
                    self._end_programs()
                    if attempt == ATTEMPTS:
                        raise
            unless_started.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop all programs, then delete the folder if it is temporary."""
        self._end_programs()
        if self._owns_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def watch(self) -> None:
        """Wait until a program ends.

        Raises:
            CannotStart: always, with the last lines of the log of the program.
        """
        while True:
            self.check_alive()
            time.sleep(0.5)

    def kubeconfig_of(self, user: str) -> str:
        """Return the kubeconfig of a user of the real nodes."""
        assert self._real_nodes is not None
        config = json.loads(self.kubeconfig.read_text("utf-8"))
        config["users"][0]["user"] = {"token": self._real_nodes.tokens[user]}
        return json.dumps(config)

    def check_alive(self) -> None:
        """Check that no program has ended.

        Raises:
            CannotStart: a program has ended; with the last lines of its log.
        """
        for name, process in self._running.items():
            if process.poll() is not None:
                raise CannotStart(
                    f"{name} ended with {process.returncode}: {self._last_words(name)}"
                )

    def _start(self) -> None:
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)
        client, peer, secure, controllers, scheduler = free_ports(5)
        nodes = self._real_nodes
        if nodes:
            secure = flags.NODES_PORT
        tokens = [f'{self._token},admin,admin,"system:masters"']
        tokens += nodes.token_lines() if nodes else []
        self._write_private("tokens.csv", "\n".join(tokens) + "\n")
        self._write_private("audit-policy.json", json.dumps(flags.AUDIT_POLICY))
        self._run("etcd", flags.etcd_flags(self.folder / "etcd", client, peer))
        self._run("kube-apiserver", flags.apiserver_flags(self.folder, client, secure, nodes))
        self._wait_for("kube-apiserver", f"https://127.0.0.1:{secure}/readyz")
        self._write_private("kubeconfig", json.dumps(self._kubeconfig(secure), indent=1))
        self._define(f"https://127.0.0.1:{secure}")
        self._run_controllers(controllers)
        self._run_scheduler(scheduler)
        ports_of = {"kube-controller-manager": controllers, "kube-scheduler": scheduler}
        for name, port in ports_of.items():
            self._wait_for(name, f"https://127.0.0.1:{port}/healthz")
        # The first object that the controllers create.
        account = "api/v1/namespaces/default/serviceaccounts/default"
        self._wait_for("kube-controller-manager", f"https://127.0.0.1:{secure}/{account}")
        if self._nodes:
            self._run_kubelet()
        for number in range(1, self._nodes + 1):
            node = f"https://127.0.0.1:{secure}/api/v1/nodes/gpu-node-{number}"
            self._wait_for("kubelet", node)

    def _define(self, server: str) -> None:
        """Create the custom kinds before the controllers discover kinds."""
        for definition in self._definitions:
            body = json.dumps(definition).encode()
            answer = self._ask(server + DEFINITIONS, body)
            if answer != 201:
                name = definition["metadata"]["name"]
                raise CannotStart(f"The API server returned {answer} to the definition of {name}.")
        for definition in self._definitions:
            spec = definition["spec"]
            for version in spec["versions"]:
                path = f"apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
                self._wait_for("kube-apiserver", f"{server}/{path}")

    def _run_controllers(self, port: int) -> None:
        arguments = flags.controller_flags(
            self.kubeconfig,
            self.folder,
            port,
            self._real_nodes,
            is_unthrottled=self._is_unthrottled,
        )
        self._run("kube-controller-manager", arguments)

    def _run_scheduler(self, port: int) -> None:
        config = flags.scheduler_configuration(
            self.kubeconfig, is_unthrottled=self._is_unthrottled
        )
        self._write_private("scheduler.json", json.dumps(config))
        self._run("kube-scheduler", flags.scheduler_flags(self.folder / "scheduler.json", port))

    def _run_kubelet(self) -> None:
        shape = ["--nodes", str(self._nodes), "--gpus", str(self._gpus), "--lease", "4"]
        self._commands["kubelet"] = [sys.executable, "-m", "gpuplatform.dev.simulator.kubelet"]
        self._run("kubelet", ["--kubeconfig", str(self.kubeconfig), *shape])

    def _run(self, name: str, arguments: list[str]) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                [*self._commands[name], *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=GARBAGE | os.environ,
                cwd=REPOSITORY,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - this process has one thread
            )

    def _wait_for(self, name: str, url: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._answers(url):
            self.check_alive()
            if time.monotonic() > deadline:
                words = self._last_words(name)
                raise CannotStart(f"{name} was not ready in {START_SECONDS:.0f} s: {words}")
            time.sleep(0.05)

    def _answers(self, url: str) -> bool:
        return self._ask(url) == 200

    def _ask(self, url: str, body: bytes | None = None) -> int:
        """Return the status of the response; 0 without one."""
        certificate = self.folder / "certs" / "apiserver.crt"
        if not certificate.is_file():
            return 0
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(url, body, headers)
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        try:
            with urllib.request.urlopen(request, timeout=10, context=context) as response:
                return int(response.status)
        except urllib.error.HTTPError as refusal:
            return refusal.code
        except OSError:
            return 0

    def _last_words(self, name: str) -> str:
        lines = (self.folder / f"{name}.log").read_text("utf-8", "replace").splitlines()
        return " | ".join(lines[-5:]) or "no output"

    def _write_private(self, name: str, text: str) -> None:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(text, "utf-8")

    def _kubeconfig(self, port: int) -> dict[str, object]:
        authority = base64.b64encode((self.folder / "certs" / "apiserver.crt").read_bytes())
        # The certificate is for the address in the network of the nodes, if there are any.
        host = self._real_nodes.address if self._real_nodes else "127.0.0.1"
        server = {
            "server": f"https://{host}:{port}",
            "certificate-authority-data": authority.decode(),
        }
        name = "controlplane"
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": server}],
            "users": [{"name": name, "user": {"token": self._token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }

    def _end_programs(self) -> None:
        # Only the kubelets need a graceful end: the state of the other programs is discarded, and
        # the API server would wait for watches.
        kubelet = self._running.get("kubelet")
        if kubelet is not None:
            kubelet.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                kubelet.wait(STOP_SECONDS)
        for process in reversed(self._running.values()):
            process.kill()
            process.wait()
        self._running.clear()


def die_with_parent() -> None:
    """Request the kernel to kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def stop_when_asked(_number: int, _frame: FrameType | None) -> None:
    """Exit on SIGTERM, with clean-up."""
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    """Run a control plane until Ctrl-C, SIGTERM, or the end of its parent or of a program."""
    parser = argparse.ArgumentParser(description="A real Kubernetes control plane.")
    parser.add_argument("--folder", type=Path, help="directory of all files (default: a new one)")
    parser.add_argument(
        "--nodes", type=int, default=0, help="number of simulated nodes (default: 0)"
    )
    parser.add_argument("--gpus", type=int, default=8, help="GPUs per node (default: 8)")
    parser.add_argument(
        "--unthrottled", action="store_true", help="clients without limits, for benchmarks"
    )
    parser.add_argument("--definitions", type=Path, help="JSON file: initial custom kinds")
    parser.add_argument("--build-only", action="store_true", help="only build the programs")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, stop_when_asked)
    try:
        if options.build_only:
            programs()
            return 0
        definitions = json.loads(options.definitions.read_text()) if options.definitions else ()
        with ControlPlane(
            options.folder,
            nodes=options.nodes,
            gpus=options.gpus,
            is_unthrottled=options.unthrottled,
            definitions=definitions,
        ) as plane:
            sys.stdout.write(f"{plane.kubeconfig}\n")
            sys.stdout.flush()
            say(f"ready; use it with: export KUBECONFIG={plane.kubeconfig}   (Ctrl-C stops it)")
            plane.watch()
    except CannotStart as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
