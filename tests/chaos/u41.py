"""`make chaos-u41`: all processes of the platform are killed at the same time, repeatedly.

Units and pools of every kind exist: some are ready and do not change; others are created, changed,
stopped, started and deleted, and a function is invoked. At a random time web, workers, beat,
controller, activator and result store receive SIGKILL and are restarted. Afterwards every accepted
request has taken effect once, leases of killed processes have expired in time, ready resources
have their old pods, and rows and cluster agree. An observer of the pods compares the usage ledger
with what units held.
"""

import argparse
import http.client
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gpuplatform.images import ECHO_IMAGE
from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, POD, STOCK_POOL, Manifest
from gpuplatform.planning.ownership import MANAGED_BY_LABEL, MANAGER
from tests.acceptance.platform import POOLS, PROCESSES, QUICK, RunningPlatform
from tests.benchmarks.bench import STOCK, UNITS, describe_machine, say
from tests.chaos.ledger import OPEN, end
from tests.chaos.usage_observer import PodObserver, faults_of
from tests.chaos.x9 import FUNCTIONS, INVOCATIONS

SPEC: Final = "u41"
VICTIMS: Final = tuple(name for name in PROCESSES if name != "kubelet")
"""All processes of the platform, without the kubelets."""

LATEST_SECONDS: Final = 3.0
"""Maximum time from the first request of a round to the kill."""
SETTLED_SECONDS: Final = 240.0
"""Timeout from the restart until all requests have taken effect."""
LEASE_SECONDS: Final = float(QUICK["GPUPLATFORM_LEASE_SECONDS"])
STEADY: Final = 4
"""Number of units that do not change; half as many pools."""
INVOKED: Final = 10

UNIT_LIVES: Final = (
    ("create", "delete"),
    ("create", "stop", "delete"),
    ("create", "stop", "start", "delete"),
    ("create", "change", "delete"),
)
POOL_LIFE: Final = ("create", "scale", "delete")
REACHED: Final = {"create": "Ready", "change": "Ready", "start": "Ready", "scale": "Ready"}
REACHED_OTHERS: Final = {"stop": "Stopped", "delete": ""}

_STATES: Final = ("ready", "claimed", "starting", "failed", "deleting")
_LEASES: Final = " UNION ALL ".join(
    f"SELECT lease_token, lease_expires_at - now() FROM {table} WHERE lease_expires_at > now()"
    for table in ("operations_operation", "units_gpuunit", "inventory_stockpool")
)

Request = tuple[str, str, Any]


@dataclass
class Life:
    """The lifecycle of one unit or pool, with one step per round."""

    path: str
    name: str
    steps: Sequence[str]
    done: int = 0

    @property
    def address(self) -> str:
        return f"{self.path}/{self.name}"

    @property
    def wanted(self) -> str:
        """The phase after its last step; empty if it is deleted."""
        return {**REACHED, **REACHED_OTHERS}[self.steps[self.done - 1]]

    @property
    def is_over(self) -> bool:
        return self.done == len(self.steps)

    def next(self) -> Request:
        """Execute the next step."""
        step = self.steps[self.done]
        self.done += 1
        key = {"operationID": f"{self.name}-{self.done}"}
        match step:
            case "create":
                return "POST", self.path, {**key, "name": self.name, **self._made_of()}
            case "change":
                return "PUT", self.address, {**key, "image": "busybox:1.37"}
            case "scale":
                return "PATCH", self.address, {**key, "replicas": 2}
            case "delete":
                return "DELETE", f"{self.address}?operationID={key['operationID']}", None
            case _:
                return "POST", f"{self.address}/{step}", key

    def _made_of(self) -> dict[str, Any]:
        if self.path == POOLS:
            return {"specName": SPEC, "replicas": 1}
        ports = {"ports": [{"name": "http", "port": 8080}]}
        return {"specName": SPEC, "image": "busybox:1.36", "template": ports}


@dataclass
class Experiment:
    """One run on a dedicated running platform."""

    platform: RunningPlatform
    rounds: int
    seed: int = 41
    lives: list[Life] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    held: int = 0
    """Leases of killed processes, in all rounds."""
    open: int = 0
    """Operations that were open at a kill, in all rounds."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._pause = threading.Event()
        self._cluster = self.platform.cluster()

    def run(self) -> list[str]:
        """Return the violations at the end."""
        with PodObserver(self.platform.cluster()) as observer:
            self._run()
        return self.faults + faults_of(self.platform, observer)

    def _run(self) -> None:
        self._prepare()
        steady = self._steady()
        for number in range(self.rounds):
            self._round(number)
            if self.faults:
                break
            pods = self._pods()
            changed = {uid for uid, before in steady.items() if pods.get(uid) != before}
            if changed:
                self.faults.append(f"pods of unchanged resources changed: {sorted(changed)}")
        say(
            f"{self.rounds} rounds; killed processes held {self.held} leases,"
            f" {self.open} operations were open"
        )
        if not self.faults and not (self.held and self.open):
            self.faults.append("no operation was open at any kill, so nothing was tested")

    # One round.

    def _round(self, number: int) -> None:
        asked = list(self._asked(number))
        asking = threading.Thread(target=self._ask_all, args=(asked,), daemon=True)
        asking.start()
        self._pause.wait(self._random.uniform(0.0, LATEST_SECONDS))
        # In this thread: a process that a thread starts ends with that thread.
        self.platform.kill_at_once(VICTIMS)
        begun = time.monotonic()
        leases = self._leases()
        open_ = int(self.platform.sql(OPEN)[0][0])
        for name in VICTIMS:
            self.platform.start(name)
        self._until(lambda: not asking.is_alive(), "all to be accepted")
        self._until(lambda: self._is_settled(number), "all requests to take effect")
        self._until(lambda: not self._left_over(), "rows and cluster to agree")
        settled = time.monotonic() - begun
        self._check_consistency()
        self.held, self.open = self.held + len(leases), self.open + open_
        count = len(self._pods())
        say(
            f"round {number}: killed with {open_} operations open and {len(leases)} leases held;"
            f" settled after {settled:.1f} s, {count} with pods;"
            f" {'; '.join(self.faults) or 'no violations'}"
        )

    def _asked(self, number: int) -> Iterator[Request]:
        """Yield the requests of a round: the next step of all lifecycles, and new ones."""
        yield "POST", STOCK, {"operationID": f"u41-seed-{number}", **_SEED}
        self.lives = [life for life in self.lives if not life.is_over]
        self.lives += [
            Life(UNITS, f"u41-{number}-{place}", steps) for place, steps in enumerate(UNIT_LIVES)
        ]
        self.lives.append(Life(POOLS, f"u41-{number}-pool", POOL_LIFE))
        moving = [life for life in self.lives if life.steps != ("create",)]
        self._random.shuffle(moving)
        for life in moving:
            yield life.next()
        for place in range(INVOKED):
            yield "POST", INVOCATIONS, _invocation(f"u41-{number}-{place}")

    def _ask_all(self, asked: Sequence[Request]) -> None:
        for request in asked:
            self._ask(*request)

    def _ask(self, method: str, path: str, body: Any) -> None:
        """Repeat a request until it is accepted, as a caller without a response does."""
        until = time.monotonic() + SETTLED_SECONDS
        response_text = "no response"
        while time.monotonic() < until:
            try:
                answer = self.platform.request(method, path, body)
            except (OSError, http.client.HTTPException, ValueError):
                response_text = "no response"
            else:
                if answer.status in {200, 202}:
                    return
                response_text = f"{answer.status} {answer.body['error']['code']}"
                if answer.status < 500 and "insufficient_capacity" not in response_text:
                    break
            self._pause.wait(0.1)
        self.faults.append(f"{method} {path}: {response_text}")

    def _leases(self) -> list[Any]:
        """Return the tokens of leases of killed processes, and check their expiry."""
        leases = self.platform.sql(_LEASES)
        longest = max((left.total_seconds() for _, left in leases), default=0.0)
        if longest > LEASE_SECONDS:
            self.faults.append(f"a lease of a killed process lasts {longest:.0f} s more")
        return [token for token, _ in leases]

    # The conditions at the end.

    def _is_settled(self, number: int) -> bool:
        """Return whether all requests have taken effect; check the invariants."""
        self._check_books()
        succeeded = (
            "SELECT count(*) FROM serverless_invocation"
            " WHERE state = 'Succeeded' AND invocation_id LIKE %s"
        )
        return (
            self.platform.is_ready()
            and self.platform.sql(OPEN)[0][0] == 0
            and self.platform.sql(succeeded, f"u41-{number}-%")[0][0] == INVOKED
            and all(self._phase(life) == life.wanted for life in self.lives)
        )

    def _phase(self, life: Life) -> str:
        answer = self.platform.request("GET", life.address)
        return "" if answer.status == 404 else str(answer.data["phase"])

    def _check_books(self) -> None:
        """Check that the states of stock add up to all stock (E3)."""
        for spec in self.platform.request("GET", "/api/v1/operator/inventory").data["specs"]:
            if sum(spec[state] for state in _STATES) != spec["total"]:
                self.faults.append(f"the states of stock do not add up: {spec}")

    def _left_over(self) -> list[str]:
        """Return the differences between cluster and rows, by UID of the resource."""
        rows = {
            str(uid)
            for table in ("units_gpuunit", "inventory_stockpool")
            for (uid,) in self.platform.sql(f"SELECT uid FROM {table} WHERE deleted_at IS NULL")
        }
        resources = [one for kind in (GPU_UNIT, STOCK_POOL) for one in self._live(kind)]
        uids = [str(one["metadata"]["uid"]) for one in resources]
        deployments = [_owner(one) for one in self._ours(DEPLOYMENT)]
        wrong = sorted(set(uids) ^ rows) + sorted(set(deployments) ^ rows)
        twice = len(deployments) - len(set(deployments))
        return [*wrong, *["a Deployment twice"] * twice]

    def _pods(self) -> dict[str, list[str]]:
        """Return the UIDs of pods by the owner of their Deployment."""
        owners = {one["metadata"]["name"]: _owner(one) for one in self._ours(DEPLOYMENT)}
        found: dict[str, list[str]] = {}
        for pod in self._ours(POD):
            name = pod["metadata"]["name"].rsplit("-", 2)[0]
            found.setdefault(owners.get(name, name), []).append(pod["metadata"]["uid"])
        return {owner: sorted(pods) for owner, pods in found.items()}

    def _check_consistency(self) -> None:
        done = self.platform.manage("check_consistency", "--wait", "60")
        if done.returncode:
            self.faults.append((done.stdout + done.stderr).strip())

    def _live(self, kind: Any) -> list[Manifest]:
        return list(self._cluster.list(kind).items)

    def _ours(self, kind: Any) -> list[Manifest]:
        selector = f"{MANAGED_BY_LABEL}={MANAGER}"
        return list(self._cluster.list(kind, label_selector=selector).items)

    # The start.

    def _steady(self) -> dict[str, list[str]]:
        """Return the pods of unchanged resources: units, pools and the worker of the function."""
        units = "SELECT uid FROM units_gpuunit WHERE role = 'active'"
        rows = self.platform.sql(f"{units} UNION SELECT uid FROM inventory_stockpool")
        found = {uid: pods for uid, pods in self._pods().items() if (uid,) in rows}
        if len(found) != len(self.lives) + 1 or not all(found.values()):
            self.faults.append(f"not all unchanged resources have pods: {found}")
        return found

    def _prepare(self) -> None:
        """Create the unchanged resources, and the stock of the first round."""
        self._ask("POST", STOCK, {"operationID": "u41-seed-steady", **_SEED, "replicas": 12})
        function = {"requestID": "u41", "specName": SPEC, "image": ECHO_IMAGE}
        shape = {"minWorkers": 1, "maxWorkers": 1, "concurrency": 4, "maxDeliver": 10}
        self._ask("POST", FUNCTIONS, {"operationID": "u41-fn", **function, **shape})
        self.lives = [Life(UNITS, f"u41-steady-{n}", ("create",)) for n in range(STEADY)]
        self.lives += [
            Life(POOLS, f"u41-steady-pool-{n}", ("create",)) for n in range(STEADY // 2)
        ]
        for life in self.lives:
            self._ask(*life.next())
        ready = "SELECT count(*) FROM serverless_function WHERE workers_ready = 1"
        self._until(lambda: self.platform.sql(ready) == [(1,)], "the function's worker")
        self._until(self._is_settled_at_first, "the unchanged resources to be ready")

    def _is_settled_at_first(self) -> bool:
        return all(self._phase(life) == life.wanted for life in self.lives)

    def _until(self, met: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + SETTLED_SECONDS
        while not met() and not self.faults:
            if time.monotonic() > until:
                self.faults.append(f"waited {SETTLED_SECONDS:.0f} s for {what}")
                return
            self._pause.wait(0.2)


_SEED: Final = {"specName": SPEC, "cpu": "100m", "memory": "64Mi", "gpu": 1, "replicas": 5}


def _invocation(key: str) -> dict[str, Any]:
    slow = {"X-Echo-Seconds": "0.5"}
    return {"requestID": "u41", "invocationID": key, "headers": slow, "payload": key}


def _owner(child: Manifest) -> str:
    return str(child["metadata"]["ownerReferences"][0]["uid"])


def main() -> int:
    """Run the experiment on a dedicated platform."""
    parser = argparse.ArgumentParser(prog="make chaos-u41", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=41, help="seed of the random times")
    options = parser.parse_args()
    describe_machine()
    with tempfile.TemporaryDirectory(prefix="chaos-u41-") as folder:
        Path(folder).chmod(0o755)
        platform = RunningPlatform(Path(folder))
        try:
            platform.start_all()
            platform.add_spec(SPEC, cpu="100m", memory="64Mi")
            return end(Experiment(platform, options.rounds, options.seed).run())
        finally:
            platform.stop_all()


if __name__ == "__main__":
    sys.exit(main())
