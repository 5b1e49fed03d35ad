"""A proxy in front of an API server that injects faults by rules.

Clients use plain HTTP on the loopback interface; the connection to the server follows the
kubeconfig. The token of the client is forwarded. With one proxy per client, faults affect only
this client.
"""

import base64
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import urllib3
import yaml

from gpuplatform.kube.client import Cluster
from tests.fakes.faults import (
    Break,
    Cut,
    Delay,
    Fault,
    Hold,
    Line,
    Refuse,
    Rule,
    Silence,
    StaleRead,
    Stream,
)
from tests.fakes.scripted_server import Exchange, ScriptedServer, cluster_at

HOLD_SECONDS = 30.0
"""The timeout of a gate that a test does not open."""
_PASSED_ON = ("Authorization", "Content-Type", "Accept")
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Upstream:
    """The server behind the proxy."""

    def __init__(self, url: str, token: str = "", authority: str | None = None) -> None:
        self.url = url.rstrip("/")
        self.token = token
        self.pool = urllib3.PoolManager(
            retries=False,
            timeout=urllib3.Timeout(connect=5, read=130),
            maxsize=32,
            ca_cert_data=authority,
        )

    @classmethod
    def of(cls, kubeconfig: Path) -> Self:
        config = yaml.safe_load(kubeconfig.read_text("utf-8"))
        cluster = config["clusters"][0]["cluster"]
        authority = cluster.get("certificate-authority-data")
        return cls(
            cluster["server"],
            (config["users"][0]["user"] or {}).get("token", ""),
            base64.b64decode(authority).decode() if authority else None,
        )

    def send(self, exchange: Exchange) -> urllib3.BaseHTTPResponse:
        headers = {key: exchange.headers[key] for key in _PASSED_ON if key in exchange.headers}
        return self.pool.request(
            exchange.method,
            self.url + exchange.target,
            body=exchange.body or None,
            headers=headers,
            preload_content=False,
        )


class FaultProxy:
    """Forwards requests; the first rule that matches a request applies its fault."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._rules: list[Rule] = []
        self._lock = threading.Lock()
        self._answers: dict[str, tuple[int, bytes]] = {}
        self._streams: set[urllib3.BaseHTTPResponse] = set()
        self._server = ScriptedServer(self._answer)
        self.url = self._server.url

    def add(self, *rules: Rule) -> None:
        """Append rules."""
        with self._lock:
            self._rules.extend(rules)

    def clear(self) -> None:
        """Remove all rules."""
        with self._lock:
            self._rules.clear()

    def count(self, verb: str, resource: str = "") -> int:
        """Return the number of requests of a verb and resource."""
        asked = [request_of(exchange) for exchange in list(self._server.requests)]
        return sum(each == verb and resource in {"", what} for each, what in asked)

    def write_kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig for this proxy; return its path."""
        user = {"name": "user", "user": {"token": self._upstream.token}}
        entry = {"name": "proxy", "cluster": {"server": self.url}}
        context = {"name": "proxy", "context": {"cluster": "proxy", "user": "user"}}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [entry],
            "users": [user],
            "contexts": [context],
            "current-context": "proxy",
        }
        path.write_text(yaml.safe_dump(config))
        return path

    def cluster(self) -> Cluster:
        """Return a new client that uses this proxy."""
        return cluster_at(self.url, self._upstream.token)

    @contextmanager
    def running(self) -> Iterator[Self]:
        with self._server.running():
            try:
                yield self
            finally:
                with self._lock:
                    streams = list(self._streams)
                for stream in streams:
                    _shut_down(stream)
                self._upstream.pool.clear()

    def _answer(self, exchange: Exchange) -> None:
        verb, resource = request_of(exchange)
        fault = self._fault(verb, resource)
        match fault:
            case Refuse():
                _refuse(exchange, fault)
                return
            case Delay():
                threading.Event().wait(fault.seconds)
            case Hold(is_after=False):
                fault.gate.wait(HOLD_SECONDS)
            case Cut(is_after=False):
                return
            case StaleRead() if (before := self._answers.get(exchange.target)) is not None:
                exchange.raw(before[1], before[0])
                return
            case _:
                pass
        if verb == "watch":
            self._watch(exchange, fault)
        else:
            self._call(exchange, fault)

    def _call(self, exchange: Exchange, fault: Fault | None) -> None:
        response = self._upstream.send(exchange)
        body = response.read()
        response.release_conn()
        if isinstance(fault, Hold) and fault.is_after:
            fault.gate.wait(HOLD_SECONDS)
        if isinstance(fault, Cut):
            return
        if exchange.method == "GET":
            self._answers[exchange.target] = (response.status, body)
        headers = {"Content-Type": response.headers.get("Content-Type", "application/json")}
        if wait := response.headers.get("Retry-After"):
            headers["Retry-After"] = wait
        exchange.raw(body, response.status, headers)

    def _watch(self, exchange: Exchange, fault: Fault | None) -> None:
        response = self._upstream.send(exchange)
        with self._lock:
            self._streams.add(response)
        try:
            if response.status != 200:
                exchange.raw(response.read(), response.status)
                return
            lines: Iterable[Line] = _lines(response)
            if isinstance(fault, Stream):
                lines = fault.edit(_lines(response))
            exchange.stream()
            _pass_on(exchange, lines)
        finally:
            with self._lock:
                self._streams.discard(response)
            response.close()

    def _fault(self, verb: str, resource: str) -> Fault | None:
        with self._lock:
            return next((rule.fault for rule in self._rules if rule.takes(verb, resource)), None)


def _pass_on(exchange: Exchange, lines: Iterable[Line]) -> None:
    for line in lines:
        match line:
            case Silence():
                exchange.hold()
                return
            case Break(last_words):
                if last_words:
                    exchange.chunk(last_words)
                return
            case _:
                exchange.chunk(line)
    exchange.end_stream()


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    pending = b""
    with suppress(urllib3.exceptions.HTTPError, OSError, ValueError):
        while some := response.read1(65536):
            *whole, pending = (pending + some).split(b"\n")
            for line in whole:
                yield line + b"\n"


def _shut_down(response: urllib3.BaseHTTPResponse) -> None:
    with suppress(OSError, ValueError, RuntimeError):
        response.shutdown()


def _refuse(exchange: Exchange, fault: Refuse) -> None:
    details = {} if fault.retry_after is None else {"retryAfterSeconds": fault.retry_after}
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": fault.status,
        "reason": fault.reason,
        "message": "the fault proxy refuses it",
        "details": details,
    }
    headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
    exchange.json(document, fault.status, headers)


def request_of(exchange: Exchange) -> tuple[str, str]:
    """Return the verb and the plural of a request, as in the audit log of Kubernetes."""
    parts = exchange.path.strip("/").split("/")
    parts = parts[3:] if parts[0] == "apis" else parts[2:]
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    resource = parts[0] if parts else ""
    if exchange.method != "GET":
        return _VERBS[exchange.method], resource
    if exchange.is_watch:
        return "watch", resource
    return ("get" if len(parts) > 1 else "list"), resource
