"""A platform for benchmarks, on a cluster whose nodes start pods immediately.

The platform has a dedicated account, so the audit log of a control plane distinguishes its
requests from those of the controllers.
"""

import contextlib
import http.client
import json
import os
import platform as machine
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from typing_extensions import override

from gpuplatform.dev.embedded.ports import LOOPBACK
from gpuplatform.dev.embedded.processes import all_processes, read_process
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.kube.kinds import GPU_UNIT
from tests.acceptance.platform import Answer, RunningPlatform
from tests.benchmarks.pools import cpu_seconds
from tests.cluster.controlplane import launcher
from tests.cluster.controlplane.flags import AUDIT_LOG
from tests.cluster.controlplane.programs import KUBERNETES
from tests.cluster.servers import process, wait_for
from tests.cluster.world import Http

UNITS = "/api/v1/gpu-units"
STOCK = "/api/v1/operator/stock-units"
SPECS = "/api/v1/operator/gpu-specs"
SPEC = "bench-1g"
NAMESPACE = "runtime-instance"
STOCK_NAMESPACE = "runtime-stock"
PORTS = {"ports": [{"name": "http", "port": 8080}]}
NODES, GPUS_A_NODE = 40, 40
OWN_PARTS = ("web", "operations", "reconcile", "periodic", "beat", "controller")
ACCOUNT = "bench-platform"
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
UPKEEP = frozenset({"leases", "configmaps"})
"""The lease of the controller and the epoch: written independent of units."""
BUILD_SECONDS = 1500.0


def say(words: str) -> None:
    """Print a line and flush."""
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


def load_words() -> str:
    """Return the load averages."""
    return "load " + " ".join(f"{one:.1f}" for one in os.getloadavg())


def describe_machine(nodes: str = f"{NODES} nodes") -> None:
    """Print the machine, the versions and the nodes."""
    names = ("Django", "celery", "kubernetes", "psycopg")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    kubernetes = ".".join(map(str, KUBERNETES))
    say(
        f"{machine.platform()}, {os.cpu_count()} cores, Python {machine.python_version()},"
        f" {versions}; control plane v{kubernetes}, {nodes}; {load_words()}"
    )


class Api:
    """One caller with a persistent connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection = http.client.HTTPConnection(LOOPBACK, port, timeout=60)

    def __call__(self, method: str, path: str, body: Any = None) -> Answer:
        """Send one request; repeat it if the server had closed the idle connection."""
        text = None if body is None else json.dumps(body)
        for is_last in (False, True):
            try:
                self._connection.request(method, path, text, {"Content-Type": "application/json"})
                answer = self._connection.getresponse()
                return Answer(answer.status, json.loads(answer.read()), {})
            except (http.client.HTTPException, ConnectionError):
                self._connection.close()
                if is_last:
                    raise
        raise AssertionError

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@dataclass
class Seen:
    """The time at which a watch first reported each unit as ready, by namespace and name."""

    ready_at: dict[tuple[str, str], float] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def follow(self, cluster: Cluster, stop: threading.Event) -> None:
        """Watch until `stop`."""
        resource_version = cluster.list(GPU_UNIT).resource_version
        while not stop.is_set():
            stream = cluster.watch(GPU_UNIT, resource_version=resource_version, timeout_seconds=5)
            try:
                for event in stream:
                    resource_version = event.resource_version or resource_version
                    if event.type in {"ADDED", "MODIFIED"}:
                        self._note(event.object)
            except ClusterUnavailable:
                if not stop.is_set():
                    raise

    def _note(self, unit: dict[str, Any]) -> None:
        if (unit.get("status") or {}).get("phase") != "Ready":
            return
        key = (unit["metadata"]["namespace"], unit["metadata"]["name"])
        with self.changed:
            self.ready_at.setdefault(key, time.perf_counter())
            self.changed.notify_all()

    def wait(self, names: list[str], namespace: str = NAMESPACE, seconds: float = 120) -> None:
        """Return once all of them have been ready."""
        keys = {(namespace, name) for name in names}
        with self.changed:
            met = self.changed.wait_for(lambda: keys <= self.ready_at.keys(), seconds)
        if not met:
            missing = sorted(keys - self.ready_at.keys())
            raise SystemExit(f"{len(missing)} were not ready after {seconds} s: {missing[:3]}")


class UnitsPlatform(RunningPlatform):
    """A platform without functions, which units do not need."""

    @override
    def is_ready(self) -> bool:
        try:
            parts = self.health()["parts"]
        except (OSError, http.client.HTTPException):
            return False
        needed = ("database", "broker", "cluster", *OWN_PARTS[1:])
        return all(parts[name]["ok"] for name in needed)

    def database_processes(self) -> list[int]:
        """Return the process ids of the database."""
        server = self._layout.postgres
        return [] if server is None else server.workers()


@dataclass
class Bench:
    """A running platform and its measurements."""

    platform: UnitsPlatform
    kubeconfig: Path
    seen: Seen = field(default_factory=Seen)
    names: Iterator[int] = field(default_factory=lambda: iter(range(10**9)))
    beside: Mapping[str, int] = field(default_factory=dict)
    """The processes of other programs than the platform, by name."""

    def api(self) -> Api:
        """Return a new caller."""
        return Api(self.platform.port)

    def name(self, prefix: str) -> str:
        """Return an unused name."""
        return f"{prefix}-{next(self.names)}"

    def create(self, api: Api, name: str) -> tuple[float, float]:
        """Request a unit; return when the request was sent and accepted."""
        begun = time.perf_counter()
        answer = self.ask_for_unit(api, name)
        if answer.status != 202:
            raise SystemExit(f"a create returned {answer.status}: {answer.body}")
        return begun, time.perf_counter()

    @staticmethod
    def ask_for_unit(api: Api, name: str) -> Answer:
        """Request a unit; return the response."""
        body = {"operationID": name, "name": name, "specName": SPEC, "image": "busybox:1.36"}
        return api("POST", UNITS, {**body, "template": PORTS})

    def ask_for_stock(self, number: int) -> str:
        """Request stock; return the operationID."""
        operation = self.name("seed")
        body = {"operationID": operation, "specName": SPEC, "gpu": 1, "replicas": number}
        with contextlib.closing(self.api()) as api:
            answer = api("POST", STOCK, {**body, "cpu": "100m", "memory": "64Mi"})
        if answer.status != 202:
            raise SystemExit(f"a seeding returned {answer.status}: {answer.body}")
        return operation

    def seed(self, number: int, seconds: float = 600) -> float:
        """Request stock; return the seconds from the request until all of it is ready."""
        begun = time.perf_counter()
        operation = self.ask_for_stock(number)
        rows = self.platform.sql(
            "SELECT u.name FROM units_gpuunit u JOIN operations_operation o"
            " ON o.id = u.operation_id WHERE o.operation_id = %s",
            operation,
        )
        names = [name for (name,) in rows]
        self.seen.wait(names, STOCK_NAMESPACE, seconds)
        done = max(self.seen.ready_at[STOCK_NAMESPACE, name] for name in names) - begun
        self.wait_for_row_count(number)
        return done

    def wait_for_row_count(self, number: int) -> None:
        """Wait until the mirror has at least this number of claimable stock rows."""
        free = (
            "SELECT count(*) FROM units_gpuunit WHERE role = 'stock' AND phase = 'Ready'"
            " AND claimed_by_id IS NULL AND consumed_by = '' AND deleted_at IS NULL"
        )
        self.platform.wait(lambda: self.platform.sql(free)[0][0] >= number, "ready stock", 120)

    def empty(self) -> None:
        """Delete all units and all stock, and wait until they are deleted."""
        self.platform.sql("UPDATE inventory_gpuspec SET warm_target = 0")
        open_ = "SELECT count(*) FROM operations_operation WHERE phase IN ('Pending', 'Running')"
        self.platform.wait(lambda: self.platform.sql(open_)[0][0] == 0, "operations to end", 300)
        cluster = self.platform.cluster()
        for unit in cluster.list(GPU_UNIT).items:
            metadata = unit["metadata"]
            cluster.delete(GPU_UNIT, metadata["name"], namespace=metadata["namespace"])
        cluster.close()
        live = "SELECT count(*) FROM units_gpuunit WHERE deleted_at IS NULL"
        self.platform.wait(
            lambda: self.platform.sql(live)[0][0] == 0, "the deletion of all units", 900
        )

    def own_cpu_seconds(self) -> dict[str, float]:
        """Return the processor time of each part of the platform without its servers."""
        return {name: self.cpu_seconds_of(name) for name in OWN_PARTS}

    def ground_cpu_seconds(self) -> dict[str, float]:
        """Return the processor time of the servers and the simulated kubelets."""
        return {
            "database": cpu_seconds(self.platform.database_processes()),
            "broker": self.cpu_seconds_of("valkey"),
            **{name: cpu_seconds(_family(pid)) for name, pid in self.beside.items()},
        }

    def cpu_seconds_of(self, part: str) -> float:
        """Return the processor time of one running part."""
        return cpu_seconds(self._pids(part))

    def _pids(self, name: str) -> list[int]:
        leader = self.platform.pid_of(name)
        return [pid for pid in self.platform.processes() if _group(pid) == leader]


def _family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    children = defaultdict(list)
    for one in all_processes():
        with contextlib.suppress(OSError):  # It has ended.
            stat = Path(f"/proc/{one.pid}/stat").read_text()
            children[int(stat.rpartition(")")[2].split()[1])].append(one.pid)
    found = [pid]
    for parent in found:
        found += children[parent]
    return found


def _group(pid: int) -> int:
    state = read_process(pid)
    return 0 if state is None else state.group


class Audit:
    """The requests of the platform to the control plane since the creation of this object."""

    def __init__(self, kubeconfig: Path) -> None:
        self._path = kubeconfig.parent / AUDIT_LOG
        self._begin = self._path.stat().st_size

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield the requests."""
        with self._path.open() as log:
            log.seek(self._begin)
            for line in log:
                event = json.loads(line)
                if event["user"]["username"].endswith(f":{ACCOUNT}"):
                    yield event

    def calls(self, *, only_writes: bool) -> Counter[str]:
        """Count the requests by verb and resource."""
        counted: Counter[str] = Counter()
        for event in self.events():
            about = event.get("objectRef") or {}
            parts = (about.get("resource", ""), about.get("subresource", ""))
            if event["verb"] in WRITES or not only_writes:
                counted[f"{event['verb']} {'/'.join(part for part in parts if part)}"] += 1
        return counted

    def writes(self) -> Counter[str]:
        """Count the writes of units and their objects."""
        calls = self.calls(only_writes=True)
        return Counter({c: n for c, n in calls.items() if c.partition(" ")[2] not in UPKEEP})


def _own_kubeconfig(admin: Path, folder: Path) -> Path:
    """Create the account of the platform with all permissions, and write its kubeconfig."""
    api = Http(admin)
    account = {"metadata": {"name": ACCOUNT}}
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    role = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "cluster-admin",
    }
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "default"}
    binding = {**account, "roleRef": role, "subjects": [subject]}
    api("POST", accounts, account)
    api("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    request = {"spec": {"expirationSeconds": 6 * 3600}}
    token = api("POST", f"{accounts}/{ACCOUNT}/token", request).body["status"]["token"]
    api.close()
    config = yaml.safe_load(admin.read_text())
    config["users"][0]["user"] = {"token": token}
    own = folder / "kubeconfig"
    own.write_text(json.dumps(config))
    return own


@contextlib.contextmanager
def on_control_plane(
    *,
    is_like_production: bool = True,
    through: Callable[[contextlib.ExitStack, Path], Path] = lambda _, own: own,
) -> Iterator[Bench]:
    """Run a platform on a real control plane whose clients are not throttled.

    The simulated kubelets write no Events, since real nodes run on other machines.

    `through` can insert a proxy between the platform and its API server.
    """
    with contextlib.ExitStack() as stack:
        folder = temporary_folder(stack)
        log = folder / "launcher.log"
        command = [*launcher.COMMAND, "--unthrottled"]
        running = stack.enter_context(process(command, log))
        wait_for(lambda: b"ready;" in log.read_bytes(), running, log, BUILD_SECONDS)
        lines = log.read_text("utf-8").splitlines()
        admin = next(Path(line) for line in lines if line.endswith("/kubeconfig"))
        command = [sys.executable, "-m", "gpuplatform.dev.simulator.kubelet"]
        shape = ["--nodes", str(NODES), "--gpus", str(GPUS_A_NODE), "--start-delay", "0"]
        command += ["--kubeconfig", str(admin), *shape, "--events-per-second", "0"]
        kubelets = stack.enter_context(process(command, folder / "kubelet.log"))
        beside = {"control plane": running.pid, "kubelets": kubelets.pid}
        platform = UnitsPlatform(
            folder,
            is_like_production=is_like_production,
            kubeconfig=through(stack, _own_kubeconfig(admin, folder)),
        )
        yield started(stack, platform, admin, beside)


@contextlib.contextmanager
def on_simulator() -> Iterator[Bench]:
    """Run a platform on the simulated cluster."""
    with contextlib.ExitStack() as stack:
        platform = UnitsPlatform(temporary_folder(stack), is_like_production=True)
        yield started(stack, platform, platform.kubeconfig)


def temporary_folder(stack: contextlib.ExitStack) -> Path:
    """Return a new folder that exists until the end of `stack`."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-units-")))
    folder.chmod(0o755)
    return folder


def started(
    stack: contextlib.ExitStack,
    platform: UnitsPlatform,
    kubeconfig: Path,
    beside: Mapping[str, int] = MappingProxyType({}),
) -> Bench:
    """Start the platform until the end of `stack`, and watch its units."""
    stack.callback(platform.stop_all)
    platform.start_all()
    platform.add_spec(SPEC, cpu="100m", memory="64Mi")
    bench = Bench(platform, kubeconfig, beside=beside)
    stop, cluster = threading.Event(), platform.cluster()
    watcher = threading.Thread(target=bench.seen.follow, args=(cluster, stop), daemon=True)
    watcher.start()
    stack.callback(stop.set)
    return bench


def at_once(calls: Sequence[Callable[[], Any]], threads: int) -> list[Any]:
    """Execute all calls with limited concurrency; return the results in order.

    An exception of a call ends the benchmark.
    """
    results: list[Any] = [None] * len(calls)
    numbers = iter(range(len(calls)))
    lock = threading.Lock()
    faults: list[BaseException] = []

    def work() -> None:
        while not faults:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            try:
                results[number] = calls[number]()
            except (SystemExit, OSError) as fault:
                faults.append(fault)

    workers = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if faults:
        raise faults[0]
    return results
