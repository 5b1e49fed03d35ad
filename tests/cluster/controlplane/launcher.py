"""Starts a real Kubernetes control plane: etcd, API server, controller manager, scheduler.

`python tests/cluster/controlplane/launcher.py --nodes 3` runs one until Ctrl-C and prints its
kubeconfig. Tests start the same command. Its programs come from `KUBEBUILDER_ASSETS` if that is
set, else they are one binary that Go builds from this folder's module, once: it is kept below the
user's cache directory.

Everything it writes lies in one directory. Its programs end when it ends, however it ends.
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
"""A port may be taken between finding and using it."""
PR_SET_PDEATHSIG = 1
AUDIT_LOG = "audit.log"
"""Below the folder: a line of JSON for each request of a ServiceAccount."""
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
"""How long the scheduler lets a pod rest, at most, that found no place; ten seconds by default."""

GARBAGE = {"GOGC": "400", "GOMEMLIMIT": "1GiB"}
"""For what lives for minutes memory is cheaper than time."""
ALONE = ("--leader-elect=false", "--bind-address=127.0.0.1")
REQUESTS, UNTHROTTLED_REQUESTS = (500, 1000), (2000, 4000)
"""How many requests a second, and at once, controllers and scheduler may send."""
EVICTION = ("node-lifecycle", "taint-eviction", "device-taint-eviction")
UNTHROTTLED_CONTROLLERS = [
    "--concurrent-deployment-syncs=20",
    "--concurrent-replicaset-syncs=20",
    "--concurrent-gc-syncs=20",
    "--controllers=" + ",".join(["*", *(f"-{name}-controller" for name in EVICTION)]),
]
"""A benchmark that loads the machine must not lose its nodes for it."""


class CannotStart(Exception):
    """The message is one sentence that says what is missing or what went wrong."""


def programs() -> dict[str, list[str]]:
    """Return the command of each component, building them if need be.

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
    """Return the cached binary of this version of the module; build it when there is none."""
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
    say(f"building the control plane, once: 5 to 10 minutes on 2 cores; it is kept as {binary}")
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
        raise CannotStart("The control plane could not be built; Go's own words are above.")
    part.replace(binary)


class ControlPlane:
    """A running control plane, as a context manager.

    `folder` holds certificates, tokens, kubeconfig, logs and data. Without it one is made, and
    removed in the end. With `is_unthrottled` its own clients are no limit, for benchmarks.
    `definitions` are custom kinds that are there before the controllers start: a garbage
    collector learns of later ones twice a minute only.
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
        """End every program, then remove the folder if it was made here."""
        self._end_programs()
        if self._owns_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def watch(self) -> None:
        """Return when a program ended by itself.

        Raises:
            CannotStart: always, with the program's last words.
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
        # The first thing that only the controllers make.
        account = "api/v1/namespaces/default/serviceaccounts/default"
        self._wait_for("kube-controller-manager", f"https://127.0.0.1:{secure}/{account}")
        if self._nodes:
            self._run_kubelet()
        for number in range(1, self._nodes + 1):
            node = f"https://127.0.0.1:{secure}/api/v1/nodes/gpu-node-{number}"
            self._wait_for("kubelet", node)

    def _define(self, server: str) -> None:
        """Have the custom kinds served before anybody asks which kinds there are."""
        for definition in self._definitions:
            body = json.dumps(definition).encode()
            answer = self._ask(server + DEFINITIONS, body)
            if answer != 201:
                name = definition["metadata"]["name"]
                raise CannotStart(f"The API server answered {answer} to the definition of {name}.")
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
        """Return the status of the answer; 0 when there is none."""
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
        return " | ".join(lines[-5:]) or "it said nothing"

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
        # Nobody but the kubelets has anything to put in order: what the others know is thrown
        # away. The API server would keep its port for as long as somebody watches.
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
    """Return the flags of a single etcd whose data may be lost."""
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

    It makes its own certificate in `folder/certs`; the same key signs the tokens, so that no other
    program is needed to make one. Pods need no ServiceAccount, since nothing runs in them.
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
        # Some distributions have it on: an owner reference then needs a right on the owner.
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        f"--audit-policy-file={folder / 'audit-policy.json'}",
        f"--audit-log-path={folder / AUDIT_LOG}",
        "--endpoint-reconciler-type=none",
        "--delete-collection-workers=4",
        # One who may do everything is never queued: what is asked for it at each request is lost.
        "--enable-priority-and-fairness=false",
    ]


@contextlib.contextmanager
def free_ports(count: int) -> Iterator[list[int]]:
    """Yield ports that nobody listens on, held until the block ends."""
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            found.append(listener.getsockname()[1])
        yield found


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends, however that ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def say(words: str) -> None:
    """Tell a person, on standard error: standard output is for the kubeconfig."""
    sys.stderr.write(words + "\n")
    sys.stderr.flush()


def stop_when_asked(_number: int, _frame: FrameType | None) -> None:
    """Turn SIGTERM into an orderly end."""
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    """Run a control plane until Ctrl-C, SIGTERM, or the end of the parent or of a program."""
    parser = argparse.ArgumentParser(description="A real Kubernetes control plane.")
    parser.add_argument("--folder", type=Path, help="where everything lies (default: a new one)")
    parser.add_argument("--nodes", type=int, default=0, help="simulated nodes (default: none)")
    parser.add_argument("--gpus", type=int, default=8, help="GPUs a node (default: 8)")
    parser.add_argument("--unthrottled", action="store_true", help="no limits, for benchmarks")
    parser.add_argument("--definitions", type=Path, help="JSON: custom kinds to begin with")
    parser.add_argument("--build-only", action="store_true", help="only build, if need be")
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
