"""`make chaos-x9`: invocations while workers, activator, result store and queue are killed.

Callers invoke functions without workers, each invocation twice with the same key. Some invocations
are poison: their function always returns 500. For some the first worker is killed, and for some
each worker, so they become dead letters. Sidecars, the activator, the result store and the queue
server are killed repeatedly; some rows lose the record of their message, consumers are deleted,
and invalid messages are published.

At the end each invocation has one result, poison has failed with its payload, dead letters have
their payload and succeed after a replay, no state went backwards, ended invocations are unchanged,
and the queue is empty.
"""

import argparse
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

from gpuplatform.images import ECHO_IMAGE
from tests.acceptance.platform import RunningPlatform
from tests.benchmarks.bench import Api, at_once, describe_machine, say
from tests.chaos.ledger import end
from tests.chaos.x9_faults import PAUSE_SECONDS, Killer
from tests.chaos.x9_journal import Journal, left_in_queue

FUNCTIONS: Final = "/api/v1/serverless/functions"
INVOCATIONS: Final = "/api/v1/serverless/invocations"
STOCK: Final = "/api/v1/operator/stock-units"
SPECS: Final = "/api/v1/operator/gpu-specs"
SPEC: Final = "chaos-serverless"
DOOMED: Final = "x9-doomed"
"""The function whose workers are always killed during their work."""
DOOMED_SECONDS: Final = 10
POISON_EVERY: Final = 49
DEADLY_EVERY: Final = 97
DEADLY_SECONDS: Final = 4
FORGOTTEN_EVERY: Final = 39
"""Coprime to the number of functions, so that each function has invocations of each kind."""
ENDED_SECONDS: Final = 600.0
OPEN: Final = (
    "SELECT count(*) FROM serverless_invocation"
    " WHERE invocation_id LIKE 'x9-%%' AND completed_at IS NULL"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of the experiment."""

    invocations: int
    functions: int
    kills: int
    """Minimum number of kills of each victim, unless all is done before."""
    seconds: float = 0.0
    """The duration of the invocations."""
    doomed: int = 10
    callers: int = 8


def payload_of(number: int) -> str:
    """Return the payload of an invocation."""
    return f"payload {number}"


def is_poison(number: int) -> bool:
    """Return whether the function always fails for this invocation."""
    return number % POISON_EVERY == 0


def is_deadly(number: int) -> bool:
    """Return whether the first worker of this invocation is killed."""
    return number % DEADLY_EVERY == 7


def headers_of(number: int) -> dict[str, str]:
    """Return the behaviour of the echo function for an invocation."""
    if is_poison(number):
        return {"X-Echo-Status": "500"}
    return {"X-Echo-Seconds": str(DEADLY_SECONDS)} if is_deadly(number) else {}


class Experiment:
    """One run on a running platform."""

    def __init__(self, platform: RunningPlatform, shape: Shape) -> None:
        self._platform = platform
        self._shape = shape
        self._killer = Killer(platform, self._deadly_ids(), DOOMED)
        self._journal = Journal(platform)
        self._pause = threading.Event()
        self._begun = time.monotonic()

    def run(self) -> list[str]:
        """Return the violations at the end."""
        self._prepare()
        self._begun = time.monotonic()
        calling = threading.Thread(target=self._invoke_all, daemon=True)
        calling.start()
        # In this thread: a server that a thread starts ends with that thread.
        with self._killer:
            while calling.is_alive() or not self._is_enough():
                self._pause.wait(PAUSE_SECONDS)
                self._killer.kill()
            left = self._platform.sql(OPEN)[0][0]
            say(
                f"after {self._seconds():.0f} s: killed {self._killer.words()};"
                f" {left} open at that time"
            )
            faults = self._wait_for_end()
        say(f"all ended after {self._seconds():.0f} s")
        faults += self._results() + self._replays()
        faults += left_in_queue(self._platform) + self._journal.close()
        say(f"over after {self._seconds():.0f} s")
        return faults

    def _seconds(self) -> float:
        return time.monotonic() - self._begun

    def _deadly_ids(self) -> list[str]:
        numbers = range(self._shape.invocations)
        return [f"x9-{number}" for number in numbers if is_deadly(number)]

    def _prepare(self) -> None:
        size = {"cpu": "100m", "memory": "64Mi", "gpu": 1}
        number = self._shape.functions + 1
        body = {"operationID": "x9-seed", "specName": SPEC, "replicas": number}
        self._write("POST", STOCK, {**body, **size})
        self._platform.wait_for_job("x9-seed")
        restock = {"operationID": "x9-restock", "restockOnDelete": True}
        self._write("PATCH", f"{SPECS}/{SPEC}", restock)
        for number in range(self._shape.functions):
            self._make(f"x9-fn-{number}", concurrency=4, maxDeliver=10)
        self._make(DOOMED, concurrency=self._shape.doomed, maxDeliver=1)
        self._journal.open()

    def _make(self, name: str, **shape: int) -> None:
        body = {"operationID": name, "requestID": name, "specName": SPEC, **shape}
        asked = {**body, "image": ECHO_IMAGE, "idleTimeoutSeconds": 5}
        self._write("POST", FUNCTIONS, {**asked, "backoffSeconds": [1]})
        self._platform.wait_for_job(name)

    def _write(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._platform.request(method, path, body)
        if answer.status not in {200, 202}:
            raise SystemExit(f"{method} {path} returned {answer.status}: {answer.body}")
        return answer.data

    def _invoke_all(self) -> None:
        share = range(self._shape.callers)
        calls = [partial(self._invoke_share, first) for first in share]
        at_once([*calls, self._invoke_doomed], len(share) + 1)

    def _invoke_share(self, first: int) -> None:
        with closing(Api(self._platform.port)) as api:
            for number in range(first, self._shape.invocations, self._shape.callers):
                at = self._shape.seconds * number / self._shape.invocations
                self._pause.wait(max(0.0, at - self._seconds()))
                self._invoke(
                    api,
                    f"x9-fn-{number % self._shape.functions}",
                    f"x9-{number}",
                    payload_of(number),
                    headers_of(number),
                )
                if number % FORGOTTEN_EVERY == 1:
                    self._forget(number)

    def _invoke_doomed(self) -> None:
        headers = {"X-Echo-Seconds": str(DOOMED_SECONDS)}
        with closing(Api(self._platform.port)) as api:
            for number in range(self._shape.doomed):
                self._invoke(api, DOOMED, f"{DOOMED}-{number}", payload_of(number), headers)
                # While the queue is down, some starts are not reported.
                self._pause.wait(1)

    @staticmethod
    def _invoke(api: Api, name: str, key: str, payload: str, headers: dict[str, str]) -> None:
        body = {"requestID": name, "invocationID": key, "payload": payload, "headers": headers}
        for _ in range(2):  # The second one is a replay.
            answer = api("POST", INVOCATIONS, body)
            if answer.status not in {200, 202}:
                raise SystemExit(f"it returned {answer.status}: {answer.body}")

    def _forget(self, number: int) -> None:
        """Make the relay publish it again, as after its death."""
        self._platform.sql(
            "UPDATE serverless_invocation SET published_at = NULL, relay_after = NULL"
            " WHERE invocation_id = %s AND completed_at IS NULL",
            f"x9-{number}",
        )

    def _is_enough(self) -> bool:
        is_over = self._platform.sql(OPEN)[0][0] == 0
        return is_over or self._killer.fewest >= self._shape.kills

    def _wait_for_end(self) -> list[str]:
        until = time.monotonic() + ENDED_SECONDS
        while (left := self._platform.sql(OPEN)[0][0]) and time.monotonic() < until:
            self._pause.wait(1)
        return [f"{left} invocations have not ended"] if left else []

    def _results(self) -> list[str]:
        rows = self._platform.sql(
            "SELECT invocation_id, state, convert_from(payload, 'UTF8'),"
            " convert_from(coalesce(result_body, ''), 'UTF8'), attempts"
            " FROM serverless_invocation WHERE invocation_id ~ '^x9-[0-9]+$'"
        )
        found: Counter[str] = Counter()
        faults = [] if len(rows) == self._shape.invocations else [f"{len(rows)} rows"]
        for name, state, payload, body, attempts in rows:
            number = int(name.rpartition("-")[2])
            again = "delivered more than once" if attempts > 1 else ""
            poison = "poison" if is_poison(number) else ""
            found[" ".join(filter(None, (state, poison or again)))] += 1
            wanted = "Failed" if is_poison(number) else "Succeeded"
            is_right = state == wanted and payload == payload_of(number)
            if not is_right or (wanted == "Succeeded" and body != payload):
                faults.append(f"{name} is {state} after {attempts} attempts with '{body}'")
        say("  " + ", ".join(f"{state} {number}" for state, number in sorted(found.items())))
        return faults[:10]

    def _replays(self) -> list[str]:
        """Replay the dead letters; each is delivered again with its payload."""
        doomed = (
            "SELECT invocation_id, state, convert_from(payload, 'UTF8')"
            " FROM serverless_invocation WHERE invocation_id LIKE 'x9-doomed-%%'"
        )
        rows = self._platform.sql(doomed)
        dead = [name for name, state, _ in rows if state == "DeadLettered"]
        say(f"  {len(dead)} of {len(rows)} doomed are dead letters")
        for name in dead:
            self._write("POST", f"{INVOCATIONS}/{name}/replay", {"operationID": f"again-{name}"})
        faults = self._wait_for_end()
        if len(rows) != self._shape.doomed or not dead:
            faults.append(f"{len(dead)} of {len(rows)} doomed were dead letters")
        for name, state, payload in self._platform.sql(doomed):
            number = int(name.rpartition("-")[2])
            if (state, payload) != ("Succeeded", payload_of(number)):
                faults.append(f"{name} is {state} after its replay with '{payload}'")
        return faults


def main() -> int:
    """Run the experiment on a dedicated platform."""
    parser = argparse.ArgumentParser(prog="make chaos-x9", description=__doc__)
    parser.add_argument("--invocations", type=int, default=5_000)
    parser.add_argument("--functions", type=int, default=20)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=420)
    options = parser.parse_args()
    describe_machine()
    with tempfile.TemporaryDirectory(prefix="chaos-x9-") as folder:
        Path(folder).chmod(0o755)
        platform = RunningPlatform(Path(folder))
        try:
            platform.start_all()
            platform.add_spec(SPEC, cpu="100m", memory="64Mi")
            sizes = (options.invocations, options.functions, options.kills, options.seconds)
            return end(Experiment(platform, Shape(*sizes)).run())
        finally:
            platform.stop_all()


if __name__ == "__main__":
    sys.exit(main())
