"""`make bench-serverless`: latency of invocations, and throughput of a worker.

A platform on the simulated cluster, whose kubelet runs the sidecar of the worker and the echo
function as local processes. Without arguments all parts run; `make bench-serverless
PARTS="warm"` runs some. Figures of different machines are not comparable.
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from gpuplatform.images import ECHO_IMAGE
from gpuplatform.kube.fields import condition
from gpuplatform.kube.kinds import POD
from tests.acceptance.platform import RunningPlatform
from tests.benchmarks import worker
from tests.benchmarks.bench import Api, describe_machine, load_words, say
from tests.benchmarks.pools import percentiles

FUNCTIONS: Final = "/api/v1/serverless/functions"
INVOCATIONS: Final = "/api/v1/serverless/invocations"
STOCK: Final = "/api/v1/operator/stock-units"
SPEC: Final = "bench-serverless"
NAMESPACE: Final = "runtime-instance"
WARM, PER_SECOND = 1_000, 50
CALLERS: Final = 8
ROUNDS: Final = 20
WORKER_INVOCATIONS: Final = 3_000
WAIT_SECONDS: Final = 180


class Bench:
    """A running platform with stock for workers."""

    def __init__(self, platform: RunningPlatform) -> None:
        self.platform = platform
        self.api = Api(platform.port)

    def post(self, path: str, body: dict[str, object]) -> None:
        """Send a write that must be accepted."""
        answer = self.api("POST", path, body)
        if answer.status not in {200, 202}:
            raise SystemExit(f"{path} returned {answer.status}: {answer.body}")

    def seed(self, number: int) -> None:
        """Wait until this number of stock units is ready."""
        size = {"cpu": "100m", "memory": "64Mi", "gpu": 1}
        body = {"operationID": f"seed-{time.time_ns()}", "specName": SPEC, "replicas": number}
        self.post(STOCK, {**body, **size})
        free = (
            "SELECT count(*) FROM units_gpuunit WHERE role = 'stock' AND phase = 'Ready'"
            " AND claimed_by_id IS NULL AND consumed_by = '' AND deleted_at IS NULL"
        )
        self.platform.wait(lambda: self.platform.sql(free)[0][0] >= number, "stock", WAIT_SECONDS)

    def make(self, name: str, **spec: object) -> None:
        """Create a function without workers."""
        body = {"operationID": f"make-{name}", "requestID": name, "specName": SPEC}
        self.post(FUNCTIONS, {**body, "image": ECHO_IMAGE, **spec})
        self.platform.wait_for_job(f"make-{name}")

    def invoke(self, api: Api, name: str, number: int) -> None:
        """Accept one invocation."""
        body = {"requestID": name, "invocationID": f"{name}-{number}", "payload": "hello"}
        answer = api("POST", INVOCATIONS, body)
        if answer.status != 202:
            raise SystemExit(f"an invocation returned {answer.status}: {answer.body}")

    def wait_for_ends(self, prefix: str, number: int) -> None:
        """Wait until this number of invocations has succeeded."""
        done = (
            "SELECT count(*) FROM serverless_invocation"
            " WHERE invocation_id LIKE %s AND state = 'Succeeded'"
        )
        self.platform.wait(
            lambda: self.platform.sql(done, f"{prefix}-%")[0][0] >= number, prefix, WAIT_SECONDS
        )

    def seconds(self, prefix: str, until: str) -> list[float]:
        """Return the seconds from each acceptance to another time of its row, oldest first."""
        rows = self.platform.sql(
            f"SELECT extract(epoch FROM {until} - accepted_at) FROM serverless_invocation"
            " WHERE invocation_id LIKE %s ORDER BY id",
            f"{prefix}-%",
        )
        return [float(seconds) for (seconds,) in rows]


def warm(bench: Bench) -> None:
    """Accepted → function called, at 50 per second, with one ready worker."""
    bench.seed(1)
    bench.make("warm", concurrency=16, minWorkers=1, idleTimeoutSeconds=600)
    bench.invoke(bench.api, "warm", 0)
    bench.wait_for_ends("warm", 1)
    apis = [Api(bench.platform.port) for _ in range(CALLERS)]
    pause, begun = threading.Event(), time.perf_counter()

    def call(first: int) -> None:
        for number in range(first, WARM + 1, CALLERS):
            pause.wait(max(0.0, begun + number / PER_SECOND - time.perf_counter()))
            bench.invoke(apis[first - 1], "warm", number)

    threads = [threading.Thread(target=call, args=(first,)) for first in range(1, CALLERS + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begun
    bench.wait_for_ends("warm", WARM + 1)
    say(f"sent {WARM} in {took:.1f} s, {WARM / took:.0f}/s")
    say(f"accepted → in the queue: {percentiles(bench.seconds('warm', 'published_at')[1:])}")
    say(f"accepted → function called: {percentiles(bench.seconds('warm', 'started_at')[1:])}")
    say(f"accepted → result stored: {percentiles(bench.seconds('warm', 'completed_at')[1:])}")


def cold(bench: Bench) -> None:
    """Accepted → function called, without a worker; the start of the pod is subtracted."""
    bench.seed(ROUNDS)
    pods = _Pods(bench.platform)
    whole: list[float] = []
    own: list[float] = []
    for number in range(ROUNDS):
        name = f"cold-{number}"
        bench.make(name, idleTimeoutSeconds=5)
        sent = time.time()
        bench.invoke(bench.api, name, 1)
        bench.wait_for_ends(name, 1)
        [took] = bench.seconds(name, "started_at")
        made, ready = pods.times_since(sent)
        whole.append(took)
        # A worker starts as soon as its function is healthy; the probe may notice that later.
        own.append((made - sent) + max(0.0, sent + took - ready))
    pods.stop()
    say(f"accepted → function called, from zero ({ROUNDS}): {percentiles(whole)}")
    say(f"the same without the start of the pod: {percentiles(own)}")


class _Pods:
    """When pods of workers appeared and became ready."""

    def __init__(self, platform: RunningPlatform) -> None:
        self._platform = platform
        self._cluster = platform.cluster()
        self._made: dict[str, float] = {}
        self._ready: dict[str, float] = {}
        self._over = threading.Event()
        self._version = self._cluster.list(POD, namespace=NAMESPACE).resource_version
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._over.is_set():
            for event in self._cluster.watch(
                POD, namespace=NAMESPACE, resource_version=self._version, timeout_seconds=5
            ):
                self._version = event.resource_version or self._version
                uid = str(event.object["metadata"].get("uid") or "")
                if event.type in {"ADDED", "MODIFIED"}:
                    self._made.setdefault(uid, time.time())
                    if condition(event.object, "Ready").get("status") == "True":
                        self._ready.setdefault(uid, time.time())

    def times_since(self, at: float) -> tuple[float, float]:
        """Return when the only pod created after `since` appeared and became ready."""
        [uid] = [uid for uid, made in self._made.items() if made >= at]
        self._platform.wait(lambda: uid in self._ready, "the pod to be ready")
        return self._made[uid], self._ready[uid]

    def stop(self) -> None:
        """End the watch."""
        self._over.set()
        self._thread.join()


def one_worker(_: Bench) -> None:
    """Invocations per second of one warm echo worker: queue, sidecar and function only."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        alone = worker.Bench(Path(folder), stack)
        seconds = alone.round_trip(WORKER_INVOCATIONS)
        rate = WORKER_INVOCATIONS / seconds
        say(f"{rate:.0f} invocations/s, concurrency {worker.CONCURRENCY}")


PARTS: Final = {"warm": warm, "cold": cold, "worker": one_worker}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmarks and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="part")
    asked = parser.parse_args(arguments).parts or list(PARTS)
    describe_machine()
    with tempfile.TemporaryDirectory(prefix="bench-serverless-") as folder:
        Path(folder).chmod(0o755)
        platform = RunningPlatform(Path(folder), is_like_production=True)
        try:
            platform.start_all()
            platform.add_spec(SPEC, cpu="100m", memory="64Mi")
            for name in asked:
                say(f"-- {name}: {PARTS[name].__doc__}  [{load_words()}]")
                PARTS[name](Bench(platform))
        finally:
            platform.stop_all()


if __name__ == "__main__":
    main()
