"""Throughput and latency of one warm worker: `python -m tests.benchmarks.worker`.

The queue, one sidecar and one function are local processes. It prints the invocations per second
with concurrency 16, and the time from publication to the handler at 50 per second.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from gpuplatform.dev.embedded.nats import Nats
from gpuplatform.dev.embedded.ports import free_port
from gpuplatform.dev.embedded.processes import wait_until
from serverless.queue.credentials import worker_credentials
from serverless.queue.gateway import Queue
from serverless.queue.messages import EndReport, InvocationMessage, decode_report
from serverless.queue.names import CREDENTIALS_KEY, RESULT_CONSUMER, RESULTS
from serverless.queue.values import OutgoingInvocation

TENANT, FUNCTION, CONCURRENCY = "bench", 1, 16


class Bench:
    """A queue with one worker."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        nats = Nats.prepare(folder / "nats", free_port())
        self._run(stack, list(nats.command().argv), {})
        assert wait_until(nats.is_ready, 10)
        self.queue = Queue(nats.url, nats.account)
        stack.callback(self.queue.close)
        self.queue.ensure()
        self.queue.ensure_consumer(TENANT, FUNCTION, max_deliver=5, max_in_progress=1000)
        text = worker_credentials(nats.account, TENANT, FUNCTION).file()
        (folder / CREDENTIALS_KEY).write_text(text)
        settings = {
            "SOCKET_PATH": str(folder / "s"),
            "QUEUE_URL": nats.url,
            "CREDENTIALS_DIRECTORY": str(folder),
            "TENANT": TENANT,
            "FUNCTION_ID": str(FUNCTION),
            "WORKER_NAME": "bench",
            "HEALTH_ADDRESS": f"127.0.0.1:{free_port()}",
            "CONCURRENCY": str(CONCURRENCY),
        }
        variables = {f"SERVERLESS_{name}": text for name, text in settings.items()}
        python = [sys.executable, "-m"]
        self._run(stack, [*python, "tests.fakes.function"], variables)
        self.sidecar = self._run(stack, [*python, "serverless.sidecar"], variables)
        self._keys = itertools.count(1)
        self.round_trip(1)

    def round_trip(self, number: int) -> float:
        """Return the seconds from the first publish to the last result."""
        began = time.perf_counter()
        outgoing = [self._outgoing() for _ in range(number)]
        for first in range(0, number, 200):
            self.queue.publish(outgoing[first : first + 200])
        self.collect(number)
        return time.perf_counter() - began

    def delays(self, number: int, rate: int) -> list[float]:
        """Return the seconds from each publication to the handler, at a given rate."""
        sent: dict[int, float] = {}
        pause = threading.Event()
        due = time.perf_counter()
        for _ in range(number):
            one = self._outgoing()
            sent[one.message.key] = time.time()
            self.queue.publish([one])
            due += 1 / rate
            pause.wait(max(due - time.perf_counter(), 0))
        found = self.collect(number)
        return [float(one.headers["x-seen-at"]) - sent[one.key] for one in found]

    def collect(self, number: int) -> list[EndReport]:
        """Return the results once this number has arrived."""
        found: list[EndReport] = []
        while len(found) < number:
            received = self.queue.fetch(RESULTS, RESULT_CONSUMER, 500, 1)
            self.queue.acknowledge(received)
            reports = [decode_report(one.data) for one in received]
            found += [one for one in reports if isinstance(one, EndReport)]
        return found

    def _outgoing(self) -> OutgoingInvocation:
        key = next(self._keys)
        payload = json.dumps({"text": "x" * 100}).encode()
        message = InvocationMessage(
            key=key,
            publication=1,
            invocation_id=f"inv-{key}",
            receipt=f"receipt-{key}",
            content_type="application/json",
            timeout_seconds=30,
            payload=payload,
        )
        return OutgoingInvocation(TENANT, FUNCTION, message)

    @staticmethod
    def _run(
        stack: ExitStack, command: list[str], variables: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, env=os.environ | variables)
        stack.callback(process.wait)
        stack.callback(process.kill)
        return process


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--invocations", type=int, default=3000)
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        bench = Bench(Path(folder), stack)
        seconds = bench.round_trip(parsed.invocations)
        print(f"{parsed.invocations / seconds:.0f} invocations/s, concurrency {CONCURRENCY}")  # noqa: T201 - its result
        cuts = statistics.quantiles(bench.delays(500, 50), n=100)
        print(f"publish to handler at 50/s: p50 {cuts[49]:.4f} s, p99 {cuts[98]:.4f} s")  # noqa: T201 - its result
        status = Path(f"/proc/{bench.sidecar.pid}/status").read_text()
        print(next(line for line in status.splitlines() if line.startswith("VmRSS")))  # noqa: T201 - its result


if __name__ == "__main__":
    main()
