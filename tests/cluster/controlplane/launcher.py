"""Starts a real Kubernetes control plane: etcd, API server, controller manager, scheduler.

`python tests/cluster/controlplane/launcher.py --nodes 3` runs one until Ctrl-C and prints its
kubeconfig. Tests start the same command. The programs are those of `KUBEBUILDER_ASSETS` if it is
set; otherwise Go builds one binary from the module in this folder, which is cached in the cache
directory of the user.

All files are in one directory. The programs end with this process, also when it is killed.
"""

import argparse
import base64
import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

MODULE = Path(__file__).resolve().parent
REPOSITORY = MODULE.parents[2]
MODULE_FILES = ("go.mod", "go.sum", "main.go")
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
KUBERNETES = (1, 36, 3)

START_SECONDS = 60.0
STOP_SECONDS = 5.0
ATTEMPTS = 3
"""Number of attempts; a port can be taken between finding and using it."""
PR_SET_PDEATHSIG = 1
AUDIT_LOG = "audit.log"
"""The audit log in the folder: a line of JSON for each request of a ServiceAccount."""
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BACK_OFF_SECONDS = 1
"""Maximum back-off of unschedulable pods in the scheduler; the default is ten seconds."""

GARBAGE = {"GOGC": "400", "GOMEMLIMIT": "1GiB"}
"""Fewer garbage collections: the processes live for minutes."""
ALONE = ("--leader-elect=false", "--bind-address=127.0.0.1")
REQUESTS, UNTHROTTLED_REQUESTS = (500, 1000), (2000, 4000)
"""Requests per second and burst of the controllers and the scheduler."""
EVICTION = ("node-lifecycle", "taint-eviction", "device-taint-eviction")
UNTHROTTLED_CONTROLLERS = [
    "--concurrent-deployment-syncs=20",
    "--concurrent-replicaset-syncs=20",
    "--concurrent-gc-syncs=20",
    "--controllers=" + ",".join(["*", *(f"-{name}-controller" for name in EVICTION)]),
]
"""Flags without eviction: the load of a benchmark can delay the heartbeats of nodes."""


class CannotStart(Exception):
    """The control plane cannot be started; the message names the cause."""


def programs() -> dict[str, list[str]]:
    """Return the command of each component; build the components if necessary.

    Raises:
        CannotStart: a program is missing and cannot be built.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    if assets:
        missing = [name for name in COMPONENTS if not (Path(assets) / name).is_file()]
        if missing:
            raise CannotStart(f"KUBEBUILDER_ASSETS={assets} has no {', '.join(missing)}.")
        return {name: [str(Path(assets) / name)] for name in COMPONENTS}
    binary = str(built_binary())
    return {name: [binary, name] for name in COMPONENTS}


def built_binary() -> Path:
    """Return the cached binary of this version of the module; build it if it does not exist."""
    content = b"".join((MODULE / name).read_bytes() for name in MODULE_FILES)
    key = hashlib.sha256(content).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "gpuplatform" / f"controlplane-{key}"
    binary = folder / "controlplane"
    if binary.is_file():
        return binary
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not binary.is_file():
            _build(binary)
    return binary


def _build(binary: Path) -> None:
    if shutil.which("go") is None:
        raise CannotStart(
            "A real control plane needs Go (https://go.dev/dl) to be built, or KUBEBUILDER_ASSETS"
            f" with the programs {', '.join(COMPONENTS)}."
        )
    say(f"Building the control plane, once: 5 to 10 minutes on 2 cores. It is cached as {binary}")
    major, minor, patch = KUBERNETES
    package = "k8s.io/component-base/version"
    flags = (
        f"-s -w -X {package}.gitVersion=v{major}.{minor}.{patch}"
        f" -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    )
    part = binary.with_suffix(".part")
    done = subprocess.run(
        [
            "nice",
            "go",
            "build",
            "-trimpath",
            "-buildvcs=false",
            "-ldflags",
            flags,
            "-o",
            part,
            ".",
        ],
        cwd=MODULE,
        env=os.environ | {"CGO_ENABLED": "0"},
        check=False,
        stdout=sys.stderr,
    )
    if done.returncode != 0:
        raise CannotStart("The control plane could not be built; see the output of Go above.")
    part.replace(binary)


class ControlPlane:
    """A running control plane, as a context manager.

    `folder` contains certificates, tokens, kubeconfig, logs and data; by default it is a temporary
    one. With `is_unthrottled` its clients are not limited, for
    benchmarks. `definitions` are custom kinds that exist before the controllers start: the garbage
    collector discovers later ones only twice a minute.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        nodes: int = 0,
        gpus: int = 8,
        is_unthrottled: bool = False,
        definitions: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._commands = programs()
        self._owns_folder = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="controlplane-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.kubeconfig = self.folder / "kubeconfig"
        self._nodes = nodes
        self._gpus = gpus
        self._is_unthrottled = is_unthrottled
        self._requests = UNTHROTTLED_REQUESTS if is_unthrottled else REQUESTS
        self._definitions = definitions
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
            self._check_alive()
            time.sleep(0.5)

    def _start(self) -> None:
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)
        with free_ports(5) as ports:
            pass
        client, peer, secure, controllers, scheduler = ports
        self._write_private("tokens.csv", f'{self._token},admin,admin,"system:masters"\n')
        self._write_private("audit-policy.json", json.dumps(AUDIT_POLICY))
        self._run("etcd", etcd_flags(self.folder / "etcd", client, peer))
        self._run("kube-apiserver", apiserver_flags(self.folder, client, secure))
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
        key = f"--service-account-private-key-file={self.folder / 'certs' / 'apiserver.key'}"
        flags = [f"--kubeconfig={self.kubeconfig}", f"--secure-port={port}", key, *ALONE]
        flags += ["--node-monitor-period=2s", "--node-monitor-grace-period=16s"]
        flags += [f"--kube-api-qps={self._requests[0]}", f"--kube-api-burst={self._requests[1]}"]
        if self._is_unthrottled:
            flags += UNTHROTTLED_CONTROLLERS
        self._run("kube-controller-manager", flags)

    def _run_scheduler(self, port: int) -> None:
        qps, burst = self._requests
        connection = {"kubeconfig": str(self.kubeconfig), "qps": qps, "burst": burst}
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": connection,
            "podMaxBackoffSeconds": BACK_OFF_SECONDS,
        }
        self._write_private("scheduler.json", json.dumps(config))
        flags = [f"--config={self.folder / 'scheduler.json'}", f"--secure-port={port}", *ALONE]
        self._run("kube-scheduler", flags)

    def _run_kubelet(self) -> None:
        shape = ["--nodes", str(self._nodes), "--gpus", str(self._gpus), "--lease", "4"]
        self._commands["kubelet"] = [sys.executable, "-m", "gpuplatform.dev.simulator.kubelet"]
        self._run("kubelet", ["--kubeconfig", str(self.kubeconfig), *shape])

    def _run(self, name: str, flags: list[str]) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                [*self._commands[name], *flags],
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
            self._check_alive()
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

    def _check_alive(self) -> None:
        for name, process in self._running.items():
            if process.poll() is not None:
                raise CannotStart(
                    f"{name} ended with {process.returncode}: {self._last_words(name)}"
                )

    def _last_words(self, name: str) -> str:
        lines = (self.folder / f"{name}.log").read_text("utf-8", "replace").splitlines()
        return " | ".join(lines[-5:]) or "no output"

    def _write_private(self, name: str, text: str) -> None:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(text, "utf-8")

    def _kubeconfig(self, port: int) -> dict[str, object]:
        authority = base64.b64encode((self.folder / "certs" / "apiserver.crt").read_bytes())
        server = {
            "server": f"https://127.0.0.1:{port}",
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


def etcd_flags(data: Path, client: int, peer: int) -> list[str]:
    """Return the flags of a single etcd without durability."""
    client_url, peer_url = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    return [
        f"--data-dir={data}",
        f"--listen-client-urls={client_url}",
        f"--advertise-client-urls={client_url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=default={peer_url}",
        "--unsafe-no-fsync",
        "--backend-batch-interval=2s",
        "--log-level=warn",
    ]


def apiserver_flags(folder: Path, etcd: int, port: int) -> list[str]:
    """Return the flags of an API server with RBAC and ServiceAccount tokens.

    It creates its certificate in `folder/certs`; the same key signs the tokens. Pods need no
    ServiceAccount, since no program runs in them.
    """
    key = folder / "certs" / "apiserver.key"
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={folder / 'certs'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--disable-admission-plugins=ServiceAccount",
        # Some distributions enable it: an owner reference then needs a right on the owner.
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        f"--audit-policy-file={folder / 'audit-policy.json'}",
        f"--audit-log-path={folder / AUDIT_LOG}",
        "--endpoint-reconciler-type=none",
        "--delete-collection-workers=4",
        # Requests of administrators are not queued, so priority and fairness is not needed.
        "--enable-priority-and-fairness=false",
    ]


@contextlib.contextmanager
def free_ports(count: int) -> Iterator[list[int]]:
    """Yield unused ports, reserved until the block ends."""
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            found.append(listener.getsockname()[1])
        yield found


def die_with_parent() -> None:
    """Request the kernel to kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def say(words: str) -> None:
    """Print to standard error; standard output is for the kubeconfig."""
    sys.stderr.write(words + "\n")
    sys.stderr.flush()


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
