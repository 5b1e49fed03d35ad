"""`make chaos-x9`: invocations while workers, activator, result store and queue are killed.

Callers invoke functions that all sleep at first, each invocation twice with the same key. Some are
poison: their function answers 500 each time. Meanwhile sidecars, the activator, the result store
and the queue server are killed again and again, and of some invocations the platform forgets that
they are in the queue. In the end each has one result: poison is dead-lettered with its payload,
all else succeeded, the queue is empty, and a dead letter that is replayed is delivered again.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from gpuplatform.images import ECHO_FUNCTION_IMAGE
from serverless.queue.gateway import Queue
from tests.acceptance.platform import RunningPlatform
from tests.benchmarks.bench import Api, at_once, describe_machine, say
from tests.chaos.ledger import end

FUNCTIONS: Final = "/api/v1/serverless/functions"
INVOCATIONS: Final = "/api/v1/serverless/invocations"
STOCK: Final = "/api/v1/operator/stock-units"
SPEC: Final = "chaos-serverless"
VICTIMS: Final = ("sidecar", "activator", "results", "nats")
POISON_EVERY: Final = 50
FORGOTTEN_EVERY: Final = 40
PAUSE_SECONDS: Final = 3.0
"""Between two kills: what was killed has to start, and that takes a busy machine a while."""
ENDED_SECONDS: Final = 1_800.0
EMPTY_SECONDS: Final = 120.0
"""A message of a worker that was killed comes again only when its time to answer is over."""
OPEN: Final = (
    "SELECT count(*) FROM serverless_invocation"
    " WHERE invocation_id LIKE 'x9-%%' AND completed_at IS NULL"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """How large the experiment is."""

    invocations: int
    functions: int
    kills: int
    """Of each victim, at least, unless all is done before."""
    callers: int = 8


def payload_of(number: int) -> str:
    """Return what an invocation is sent."""
    return f"payload {number}"


def is_poison(number: int) -> bool:
    """Say whether the function refuses this one each time."""
    return number % POISON_EVERY == 0


class Experiment:
    """One run on a platform that is up."""

    def __init__(self, platform: RunningPlatform, shape: Shape) -> None:
        self._platform = platform
        self._shape = shape
        self._random = random.Random(9)
        self.kills: Counter[str] = Counter()
        self._pause = threading.Event()

    def run(self) -> list[str]:
        """Return what is wrong at the end."""
        begun = time.monotonic()
        self._prepare()
        calling = threading.Thread(target=self._invoke_all, daemon=True)
        calling.start()
        # In this thread: a server that a thread starts ends with that thread.
        while calling.is_alive() or not self._is_enough():
            self._pause.wait(PAUSE_SECONDS)
            self._kill()
        killed = ", ".join(f"{name} {number}" for name, number in sorted(self.kills.items()))
        say(f"killed: {killed}; {self._platform.sql(OPEN)[0][0]} open then")
        faults = self._wait_for_end()
        say(f"all ended after {time.monotonic() - begun:.0f} s")
        return faults + self._results() + self._queue()

    def _prepare(self) -> None:
        size = {"cpu": "100m", "memory": "64Mi", "gpu": 1}
        body = {"operationID": "x9-seed", "specName": SPEC, "replicas": self._shape.functions}
        self._write("POST", STOCK, {**body, **size})
        for number in range(self._shape.functions):
            name = f"x9-fn-{number}"
            body = {"operationID": name, "requestID": name, "specName": SPEC}
            shape = {"concurrency": 4, "idleTimeoutSeconds": 5, "maxDeliver": 10}
            asked = {**body, **shape, "image": ECHO_FUNCTION_IMAGE, "backoffSeconds": [1]}
            self._write("POST", FUNCTIONS, asked)
            self._platform.wait_for_job(name)

    def _write(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._platform.request(method, path, body)
        if answer.status not in {200, 202}:
            raise SystemExit(f"{method} {path} was answered with {answer.status}: {answer.body}")
        return answer.data

    def _invoke_share(self, first: int) -> None:
        with closing(Api(self._platform.port)) as api:
            for number in range(first, self._shape.invocations, self._shape.callers):
                self._invoke(api, number)
                if number % FORGOTTEN_EVERY == 1:
                    self._forget(number)

    def _invoke(self, api: Api, number: int) -> None:
        body = {
            "requestID": f"x9-fn-{number % self._shape.functions}",
            "invocationID": f"x9-{number}",
            "headers": {"X-Echo-Status": "500"} if is_poison(number) else {},
            "payload": payload_of(number),
        }
        for _ in range(2):  # The second one is a replay.
            answer = api("POST", INVOCATIONS, body)
            if answer.status not in {200, 202}:
                raise SystemExit(f"it was answered with {answer.status}: {answer.body}")

    def _forget(self, number: int) -> None:
        """Have the relay put it in the queue once more, as if it had died in the midst."""
        self._platform.sql(
            "UPDATE serverless_invocation SET published_at = NULL, relay_after = NULL"
            " WHERE invocation_id = %s AND completed_at IS NULL",
            f"x9-{number}",
        )

    def _invoke_all(self) -> None:
        share = range(self._shape.callers)
        at_once([partial(self._invoke_share, first) for first in share], len(share))

    def _is_enough(self) -> bool:
        is_over = self._platform.sql(OPEN)[0][0] == 0
        return is_over or min(self.kills[name] for name in VICTIMS) >= self._shape.kills

    def _kill(self) -> None:
        fewest = min(self.kills[name] for name in VICTIMS)
        name = self._random.choice([one for one in VICTIMS if self.kills[one] == fewest])
        if name == "sidecar":
            self.kills[name] += self._kill_a_sidecar()
        else:
            self._platform.kill(name)
            self._platform.start(name)
            self.kills[name] += 1

    def _kill_a_sidecar(self) -> int:
        kubelet = self._platform.pid_of("kubelet")
        found = [pid for pid in _children(kubelet) if "serverless.sidecar" in _command(pid)]
        if not found:
            return 0
        os.kill(self._random.choice(found), signal.SIGKILL)
        return 1

    def _wait_for_end(self) -> list[str]:
        until = time.monotonic() + ENDED_SECONDS
        while (left := self._platform.sql(OPEN)[0][0]) and time.monotonic() < until:
            self._pause.wait(1)
        return [f"{left} invocations have not ended"] if left else []

    def _results(self) -> list[str]:
        rows = self._platform.sql(
            "SELECT invocation_id, state, convert_from(payload, 'UTF8'),"
            " convert_from(coalesce(result_body, ''), 'UTF8'), attempts"
            " FROM serverless_invocation WHERE invocation_id LIKE 'x9-%%'"
        )
        found: Counter[str] = Counter()
        faults = [] if len(rows) == self._shape.invocations else [f"{len(rows)} rows"]
        for name, state, payload, body, attempts in rows:
            number = int(name.rpartition("-")[2])
            found[f"{state} {'poison' if is_poison(number) else ''}".strip()] += 1
            wanted = "Failed" if is_poison(number) else "Succeeded"
            is_right = state == wanted and payload == payload_of(number)
            if not is_right or (wanted == "Succeeded" and body != payload):
                faults.append(f"{name} is {state} after {attempts} attempts with '{body}'")
        say("  " + ", ".join(f"{state} {number}" for state, number in sorted(found.items())))
        return faults[:10]

    def _queue(self) -> list[str]:
        """Nothing may stay in the queue of any function; what was sent twice goes last."""
        rows = self._platform.sql(
            "SELECT f.id, t.name FROM serverless_function f JOIN tenancy_tenant t"
            " ON t.id = f.tenant_id WHERE f.request_id LIKE 'x9-fn-%%'"
        )
        with closing(self._platform.queue()) as queue:
            until = time.monotonic() + EMPTY_SECONDS
            while (faults := _left(queue, rows)) and time.monotonic() < until:
                self._pause.wait(1)
        return faults


def _left(queue: Queue, functions: list[tuple[Any, ...]]) -> list[str]:
    found = {number: queue.backlog(tenant, number) for number, tenant in functions}
    return [
        f"function {number} has {left} in the queue"
        for number, left in found.items()
        if left is not None and left.pending + left.in_work + left.exhausted
    ]


def _children(pid: int) -> list[int]:
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for one in lists for child in one.read_text().split()]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def main() -> int:
    """Run the experiment on a platform of its own."""
    parser = argparse.ArgumentParser(prog="make chaos-x9", description=__doc__)
    parser.add_argument("--invocations", type=int, default=5_000)
    parser.add_argument("--functions", type=int, default=20)
    parser.add_argument("--kills", type=int, default=30)
    options = parser.parse_args()
    describe_machine()
    with tempfile.TemporaryDirectory(prefix="chaos-x9-") as folder:
        Path(folder).chmod(0o755)
        platform = RunningPlatform(Path(folder))
        try:
            platform.start_all()
            shape = Shape(options.invocations, options.functions, options.kills)
            return end(Experiment(platform, shape).run())
        finally:
            platform.stop_all()


if __name__ == "__main__":
    sys.exit(main())
