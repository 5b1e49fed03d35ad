"""One worker: sidecar and function as processes, on a real queue."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from gpuplatform.dev.embedded.ports import free_port
from gpuplatform.dev.embedded.processes import wait_until
from serverless.queue.credentials import worker_credentials
from serverless.queue.errors import QueueUnavailable
from serverless.queue.gateway import Queue
from serverless.queue.messages import (
    EndReport,
    InvocationMessage,
    Report,
    StartReport,
    decode_report,
)
from serverless.queue.names import CREDENTIALS_KEY, INVOCATIONS, RESULT_CONSUMER, RESULTS
from serverless.queue.streams import function_consumer
from serverless.queue.values import Backlog, OutgoingInvocation, PublishStatus, StoredMessage
from serverless.sidecar.health import DRAIN_TOKEN_HEADER
from tests.fakes.queue_server import QueueServer

REPOSITORY = Path(__file__).resolve().parents[2]
TENANT, FUNCTION = "acme", 7
TOKEN = "token-of-the-worker"
SECONDS = 20.0
ACK_WAIT = 3.0
"""Shorter than in production, so that a lost message is delivered again within a test."""

FoundT = TypeVar("FoundT")


class Rig:
    """A queue, and processes that are killed at the end of the test."""

    def __init__(self, folder: Path, server: QueueServer, queue: Queue) -> None:
        self.folder, self.server, self.queue = folder, server, queue
        self.reports: list[Report] = []
        self._keys = itertools.count(1)
        self._processes: list[subprocess.Popen[bytes]] = []
        credentials = folder / "credentials"
        credentials.mkdir()
        text = worker_credentials(server.account, TENANT, FUNCTION).file()
        (credentials / CREDENTIALS_KEY).write_text(text)
        self.consume(max_deliver=3)

    # The queue.

    def consume(self, *, max_deliver: int, ack_wait: float = ACK_WAIT) -> None:
        """Create the consumer of the function."""
        config = function_consumer(TENANT, FUNCTION, max_deliver=max_deliver, max_in_progress=100)
        config = replace(config, ack_wait=ack_wait)
        self.queue.call(lambda js: js.add_consumer(INVOCATIONS, config))

    def invoke(self, *, timeout: int = 10, **fields: Any) -> int:
        """Queue an invocation and return its key."""
        key = next(self._keys)
        self.put(key, json.dumps(fields).encode(), timeout=timeout)
        return key

    def invoke_until(self, expires_at: datetime, *, publication: int = 1) -> int:
        """Queue an invocation that expires, and return its key."""
        key = next(self._keys)
        self.put(key, b"{}", publication=publication, expires_at=expires_at)
        return key

    def put(
        self,
        key: int,
        payload: bytes,
        *,
        timeout: int = 10,
        publication: int = 1,
        expires_at: datetime | None = None,
        **headers: str,
    ) -> None:
        """Queue an invocation with this payload."""
        message = InvocationMessage(
            key=key,
            publication=publication,
            expires_at=expires_at,
            invocation_id=f"inv-{key}",
            receipt=f"receipt-{key}",
            content_type="application/json",
            timeout_seconds=timeout,
            payload=payload,
            headers={name.replace("_", "-"): text for name, text in headers.items()},
        )
        [outcome] = self.queue.publish([OutgoingInvocation(TENANT, FUNCTION, message)])
        assert outcome.status is PublishStatus.STORED, outcome

    def backlog(self) -> Backlog:
        """Return the backlog of the function."""
        found = self.queue.backlog(TENANT, FUNCTION)
        assert found is not None
        return found

    def messages(self) -> list[StoredMessage]:
        """Return the messages in the stream of invocations."""
        return self.queue.messages(TENANT, FUNCTION, 2**62, 1000)

    def finished(self, key: int, seconds: float = SECONDS) -> EndReport:
        """Wait for the report of an invocation's end and return it."""
        return self._until(lambda: self._found(EndReport, key), f"{key} to end", seconds)

    def started(self, key: int, attempt: int = 1) -> StartReport:
        """Wait for the report of an attempt's start and return it."""

        def find() -> StartReport | None:
            found = self._all(StartReport, key)
            return next((one for one in found if one.attempt == attempt), None)

        return self._until(find, f"attempt {attempt} of {key}", SECONDS)

    def all_finished(self, key: int) -> list[EndReport]:
        """Return every report of its end so far."""
        return self._all(EndReport, key)

    def read_reports(self) -> None:
        """Fetch the available reports."""
        try:
            received = self.queue.fetch(RESULTS, RESULT_CONSUMER, 100, 0.1)
        except QueueUnavailable:
            return  # A test has killed the server, and restarts it.
        self.reports += [decode_report(one.data) for one in received]
        self.queue.acknowledge(received)

    # The processes.

    def function(self) -> subprocess.Popen[bytes]:
        """Start a function."""
        return self._start("tests.fakes.function")

    def raw_function(self) -> subprocess.Popen[bytes]:
        """Start a function that responds with the bytes of its payload."""
        return self._start("tests.fakes.raw_function")

    def tcp_function(self, port: int, **environment: str) -> subprocess.Popen[bytes]:
        """Start a server on a TCP port that is independent of the platform."""
        return self._start("tests.fakes.tcp_function", PORT=str(port), **environment)

    def sidecar(self, **environment: str) -> "Sidecar":
        """Start a sidecar without waiting until it is ready."""
        port = free_port()
        settings = {
            "QUEUE_URL": self.server.url,
            "CREDENTIALS_DIRECTORY": str(self.folder / "credentials"),
            "TENANT": TENANT,
            "FUNCTION_ID": str(FUNCTION),
            "WORKER_NAME": f"fn-{FUNCTION}-{port}",
            "HEALTH_ADDRESS": f"127.0.0.1:{port}",
            "DRAIN_TOKEN": TOKEN,
            "MAX_DELIVER": "3",
            "BACKOFF_SECONDS": "1",
            "PROGRESS_SECONDS": "1",
            **environment,
        }
        variables = {f"SERVERLESS_{name}": text for name, text in settings.items()}
        return Sidecar(self._start("serverless.sidecar", **variables), port)

    def worker(self, **environment: str) -> tuple["Sidecar", subprocess.Popen[bytes]]:
        """Start both and wait until the worker is ready."""
        function, sidecar = self.function(), self.sidecar(**environment)
        sidecar.until_ready()
        return sidecar, function

    def fifo(self) -> Path:
        """Return a FIFO that blocks a call until `release`."""
        path = self.folder / f"fifo-{next(self._keys)}"
        os.mkfifo(path)
        return path

    def release(self, fifo: Path) -> None:
        """Unblock the call; wait until it has started."""
        fifo.write_bytes(b"go")

    def stop(self) -> None:
        """Kill every process."""
        for process in self._processes:
            process.kill()
            process.wait(10)

    def _start(self, module: str, **environment: str) -> subprocess.Popen[bytes]:
        socket = {"SERVERLESS_SOCKET_PATH": str(self.folder / "s")}
        process = subprocess.Popen(
            [sys.executable, "-m", module], cwd=REPOSITORY, env={**socket, **environment}
        )
        self._processes.append(process)
        return process

    def _until(self, look: Callable[[], FoundT | None], what: str, seconds: float) -> FoundT:
        deadline = time.monotonic() + seconds
        while (found := look()) is None:
            assert time.monotonic() < deadline, f"waited for {what}; there is {self.reports}"
            self.read_reports()
        return found

    def _found(self, kind: type[FoundT], key: int) -> FoundT | None:
        return next(iter(self._all(kind, key)), None)

    def _all(self, kind: type[FoundT], key: int) -> list[FoundT]:
        return [one for one in self.reports if isinstance(one, kind) and one.key == key]


class Sidecar:
    """A running sidecar."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self._port = port

    def get(self, path: str, token: str = "") -> int:
        """Return the status of the health server's response, or 0 without a response."""
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}{path}")
        request.add_header(DRAIN_TOKEN_HEADER, token)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        except OSError:
            return 0

    def until_ready(self) -> None:
        """Wait until it is ready."""
        assert wait_until(lambda: self.get("/readyz") == 200, SECONDS), "the sidecar is not ready"

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
