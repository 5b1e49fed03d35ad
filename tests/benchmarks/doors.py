"""`make bench-doors`: the response times of the web process while clients attack it.

The attacks need no account, except the one with large lists. Each line states the number of
connections, and the longest and the median response times of `/livez` and of `/api/v1/health`.
"""

import contextlib
import http.client
import json
import socket
import statistics
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from typing_extensions import override

from gpuplatform.dev.embedded.ports import LOOPBACK
from gpuplatform.dev.embedded.processes import all_processes, read_process
from tests.acceptance.platform import RunningPlatform
from tests.benchmarks.bench import load_words, say

SECONDS: Final = 15.0
PATIENCE: Final = 30.0
"""Time limit in seconds of one measured request."""
STEP_SECONDS: Final = 1.0
"""Pause between two bytes of a slow client."""
CONNECTIONS: Final = 200
JSON: Final = {"Content-Type": "application/json"}
LIVE, HEALTH = "/livez", "/api/v1/health"

HEAD = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
BODY_HEAD = (
    b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 500000\r\n\r\n{"
)
READ = b"GET /api/v1/schema HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass(frozen=True)
class Slow:
    """An attack: each connection sends `first`, then single bytes, or reads single bytes."""

    name: str
    first: bytes = b""
    drips: bytes = b""
    is_reader: bool = False


ATTACKS: Final = (
    Slow("silent"),
    Slow("slow head", HEAD, b"a"),
    Slow("slow body, /admin/login/", BODY_HEAD % b"/admin/login/", b" "),
    Slow("slow body, /api/v1/gpu-units", BODY_HEAD % b"/api/v1/gpu-units", b" "),
    Slow("slow read, /api/v1/schema", READ, is_reader=True),
)


@dataclass
class Times:
    """Response times in seconds by path."""

    by_path: dict[str, list[float]] = field(default_factory=lambda: {LIVE: [], HEALTH: []})

    @override
    def __str__(self) -> str:
        return "; ".join(
            f"{path} max {max(times) * 1000:.0f} ms, median {statistics.median(times) * 1000:.0f}"
            f" ms ({len(times)})"
            for path, times in self.by_path.items()
            if times
        )


def probe(port: int, path: str) -> float:
    """Return the duration of a request on a new connection, at most `PATIENCE`."""
    begun = time.perf_counter()
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=PATIENCE)
    with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
        connection.request("GET", path)
        connection.getresponse().read()
    return time.perf_counter() - begun


@contextlib.contextmanager
def measured(port: int) -> Iterator[Times]:
    """Measure within the block; the measurement of each path is a thread."""
    times, stop = Times(), threading.Event()

    def run(path: str) -> None:
        while not stop.is_set():
            times.by_path[path].append(probe(port, path))
            stop.wait(0.1)

    threads = [threading.Thread(target=run, args=(path,)) for path in times.by_path]
    for thread in threads:
        thread.start()
    try:
        yield times
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def attack(port: int, slow: Slow, connections: int) -> None:
    """Hold this number of connections for some time; replace those that the server closes."""
    held: list[socket.socket] = []
    end = time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            held = [one for one in held if _goes_on(one, slow)]
            held += [_opened(port, slow) for _ in range(connections - len(held))]
            time.sleep(STEP_SECONDS)
    finally:
        for one in held:
            one.close()


def _opened(port: int, slow: Slow) -> socket.socket:
    one = socket.socket()
    if slow.is_reader:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    one.settimeout(5)
    with contextlib.suppress(OSError):  # The next step replaces it.
        one.connect((LOOPBACK, port))
        one.sendall(slow.first)
    return one


def _goes_on(one: socket.socket, slow: Slow) -> bool:
    try:
        if slow.drips:
            one.sendall(slow.drips)
        one.setblocking(False)
        size = 1 if slow.is_reader else 4096
        return one.recv(size) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        one.settimeout(5)


def pss_mib(platform: RunningPlatform) -> float:
    """Return the memory of the web processes in MiB, with shared pages counted once."""
    leader, total = platform.pid_of("web"), 0
    for process in all_processes():
        state = read_process(process.pid)
        if state is not None and state.group == leader:
            with contextlib.suppress(OSError):
                text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
                total += next(
                    int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")
                )
    return total / 1024


@contextlib.contextmanager
def watched_memory(platform: RunningPlatform) -> Iterator[list[float]]:
    """Collect the memory of the web processes within the block."""
    found, stop = [pss_mib(platform)], threading.Event()

    def run() -> None:
        while not stop.wait(0.2):
            found.append(pss_mib(platform))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join()


def concurrently(number: int, call: Callable[[], None]) -> None:
    """Run the call in this number of threads and wait for all."""
    threads = [threading.Thread(target=call) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def slow_clients(platform: RunningPlatform) -> None:
    """H2: connections without an account that send or read slowly."""
    with measured(platform.port) as times:
        time.sleep(SECONDS / 3)
    say(f"no attack: {times}; {load_words()}")
    for slow in ATTACKS:
        with watched_memory(platform) as memory, measured(platform.port) as times:
            attack(platform.port, slow, CONNECTIONS)
        say(
            f"{CONNECTIONS} {slow.name}: {times}; memory {memory[0]:.0f} -> {max(memory):.0f} MiB;"
            f" {load_words()}"
        )


def log_ins(platform: RunningPlatform) -> None:
    """H3: concurrent log-ins with a wrong password."""
    statuses: list[int] = []

    def guess() -> None:
        statuses.extend(_log_in(platform.port) for _ in range(3))

    with watched_memory(platform) as memory, measured(platform.port) as times:
        concurrently(16, guess)
    counts = {status: statuses.count(status) for status in sorted(set(statuses))}
    say(f"16 x 3 log-ins: memory {memory[0]:.0f} -> {max(memory):.0f} MiB; {counts}; {times}")


def _log_in(port: int) -> int:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", "/admin/login/")
        answer = connection.getresponse()
        page = answer.read().decode()
        cookies = [value.partition(";")[0] for value in answer.headers.get_all("Set-Cookie") or ()]
        token = page.partition('name="csrfmiddlewaretoken" value="')[2].partition('"')[0]
        form = {"username": "admin", "password": "wrong", "csrfmiddlewaretoken": token}
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Cookie": "; ".join(cookies),
        }
        connection.request("POST", "/admin/login/", urllib.parse.urlencode(form), headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status


def large_lists(platform: RunningPlatform) -> None:
    """H4: lists of functions with large templates."""
    connection = http.client.HTTPConnection(LOOPBACK, platform.port, timeout=60)
    text = json.dumps({"operationID": "spec", "name": "large", "gpu": 1})
    connection.request("POST", "/api/v1/operator/gpu-specs", text, JSON)
    say(f"spec: {connection.getresponse().read()[:200]!r}")
    for number in range(200):
        value = f"{number}" * 80_000
        body = {
            "operationID": f"large-{number}",
            "requestID": f"large-{number}",
            "specName": "large",
            "image": "busybox:1.36",
            "template": {"envs": [{"name": f"A{i}", "value": value[:30_000]} for i in range(8)]},
        }
        text = json.dumps(body)
        connection.request("POST", "/api/v1/serverless/functions", text, JSON)
        answer = connection.getresponse()
        if answer.status != 202:
            raise SystemExit(f"a create returned {answer.status}: {answer.read()[:300]!r}")
        answer.read()
    sizes: list[int] = []

    def read_list() -> None:
        other = http.client.HTTPConnection(LOOPBACK, platform.port, timeout=120)
        with contextlib.closing(other):
            other.request("GET", "/api/v1/serverless/functions?limit=200")
            sizes.append(len(other.getresponse().read()))

    with watched_memory(platform) as memory, measured(platform.port) as times:
        begun = time.perf_counter()
        concurrently(8, read_list)
        seconds = time.perf_counter() - begun
    say(
        f"8 lists of 200 functions: {seconds:.1f} s, largest {max(sizes) / 1e6:.2f} MB;"
        f" memory {memory[0]:.0f} -> {max(memory):.0f} MiB; {times}"
    )


PARTS: Final = {"clients": slow_clients, "logins": log_ins, "lists": large_lists}


def main() -> int:
    """Start a platform and run the parts."""
    parts = sys.argv[1:] or list(PARTS)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        platform = RunningPlatform(Path(name), is_like_production=True)
        try:
            platform.start_all()
            for part in parts:
                PARTS[part](platform)
        finally:
            platform.stop_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
