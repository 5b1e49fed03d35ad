"""X1, the duplicate storm: concurrent duplicates of requests, and the comparison of their outcome.

Callers record their responses in a file outside of the system; `violations` compares it with the
database and the cluster. It is pure, and tested with injected faults.
"""

import http.client
import json
import socket
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from gpuplatform.dev.embedded.ports import LOOPBACK
from gpuplatform.kube.kinds import GROUP, STOCK_POOL, Manifest
from tests.acceptance.platform import POOLS, RunningPlatform
from tests.benchmarks.bench import at_once

COPIES: Final = 8
"""Number of concurrent copies of each request."""
THREADS: Final = 2 * COPIES
CHANGED_EVERY: Final = 10
"""One of this number of requests has a different payload."""
PAYLOAD, CHANGED = "1Gi", "2Gi"
"""The memory of a pool, which identifies the accepted payload."""

Key = tuple[str, str]
"""Tenant and operationID."""


@dataclass(frozen=True, slots=True)
class Response:
    """One request and its response; status 0: the caller disconnected before."""

    tenant: str
    operation_id: str
    memory: str
    status: int
    code: str = ""

    @property
    def key(self) -> Key:
        """Tenant and operationID."""
        return self.tenant, self.operation_id


@dataclass(frozen=True, slots=True)
class State:
    """The state of database and cluster: operations with their phases, and objects."""

    operations: Sequence[tuple[Key, str, str]]
    """Key, memory and phase."""
    rows: Sequence[Key]
    objects: Sequence[tuple[Key, str]]
    """Key and memory, from the annotations and the spec of the object."""


class Violation(NamedTuple):
    """A deviation from the expected outcome of a request; `found` is the wrong value."""

    key: Key
    what: str
    found: object


def violations(ledger: Sequence[Response], state: State) -> list[Violation]:
    """Return the violations; empty without any."""
    requested = {response.key for response in ledger}
    accepted = {key: memory for key, memory, _ in state.operations}
    faults = [
        *_count_faults("operations", [key for key, _, _ in state.operations], requested),
        *_count_faults("rows", state.rows, requested),
        *_count_faults("objects", [key for key, _ in state.objects], requested),
    ]
    faults += [
        Violation(key, "phase", phase)
        for key, _, phase in state.operations
        if phase != "Succeeded"
    ]
    faults += [
        Violation(key, "payload", memory)
        for key, memory in state.objects
        if accepted.get(key) != memory
    ]
    by_key: dict[Key, list[Response]] = defaultdict(list)
    for response in ledger:
        by_key[response.key].append(response)
    for key, responses in by_key.items():
        faults += _response_faults(key, responses, accepted.get(key, ""))
    return faults


def _count_faults(what: str, found: Sequence[Key], requested: set[Key]) -> Iterator[Violation]:
    counts = Counter(found)
    for key in sorted(requested | counts.keys()):
        if counts[key] != int(key in requested):
            yield Violation(key, what, counts[key])


def _response_faults(
    key: Key, responses: Sequence[Response], accepted: str
) -> Iterator[Violation]:
    firsts = sum(response.status == 202 for response in responses)
    may_be_lost = any(r.status == 0 and r.memory == accepted for r in responses)
    if firsts > 1 or (firsts == 0 and not may_be_lost):
        yield Violation(key, "responses with 202", firsts)
    for response in responses:
        expected = {200, 202} if response.memory == accepted else {409}
        if response.status not in expected | {0}:
            yield Violation(key, "status", response.status)
        elif response.status == 409 and response.code != "operation_conflict":
            yield Violation(key, "code", response.code)


class Ledger:
    """An append-only file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def write(self, response: Response) -> None:
        """Add a line."""
        with self._lock, self._path.open("a") as lines:
            lines.write(json.dumps(asdict(response)) + "\n")

    def read(self) -> list[Response]:
        """Return every line."""
        return [Response(**json.loads(line)) for line in self._path.read_text().splitlines()]


class Storm:
    """Operations of each tenant, each sent `COPIES` times concurrently."""

    def __init__(self, port: int, ledger: Ledger, secrets: Mapping[str, str], prefix: str) -> None:
        """`secrets` are the tenants' tokens."""
        self._port = port
        self._ledger = ledger
        self._secrets = secrets
        self._prefix = prefix
        self._own = threading.local()
        self._opened: list[http.client.HTTPConnection] = []

    def run(self, ids: int) -> None:
        """Send all requests; half of the callers disconnect first and repeat theirs."""
        calls = [
            partial(self._request, tenant, f"{self._prefix}-{number}", copy, _memory(number, copy))
            for number in range(ids)
            for copy in range(COPIES)
            for tenant in self._secrets
        ]
        try:
            at_once(calls, THREADS)
        finally:
            for connection in self._opened:
                connection.close()

    def _request(self, tenant: str, operation_id: str, copy: int, memory: str) -> None:
        body = {"operationID": operation_id, "specName": "g1.1", "replicas": 0, "memory": memory}
        text = json.dumps(body)
        if copy % 2:
            self._disconnect(tenant, text)
            self._ledger.write(Response(tenant, operation_id, memory, 0))
        status, found = self._send(tenant, text)
        code = str((found.get("error") or {}).get("code", ""))
        self._ledger.write(Response(tenant, operation_id, memory, status, code))

    def _headers(self, tenant: str) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {self._secrets[tenant]}",
            "Content-Type": "application/json",
        }

    def _disconnect(self, tenant: str, text: str) -> None:
        connection = self._new()
        connection.request("POST", POOLS, text, self._headers(tenant))
        assert isinstance(connection.sock, socket.socket)
        connection.sock.close()
        connection.close()

    def _send(self, tenant: str, text: str) -> tuple[int, Any]:
        """Send one request on the connection of this thread; repeat it if the server closed it."""
        for is_last in (False, True):
            connection = self._connection()
            try:
                connection.request("POST", POOLS, text, self._headers(tenant))
                answer = connection.getresponse()
                return answer.status, json.loads(answer.read())
            except (http.client.HTTPException, ConnectionError):
                connection.close()  # The next request opens it again.
                if is_last:
                    raise
        raise AssertionError

    def _connection(self) -> http.client.HTTPConnection:
        found: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if found is None:
            found = self._own.connection = self._new()
            self._opened.append(found)
        return found

    def _new(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(LOOPBACK, self._port, timeout=60)


def _memory(number: int, copy: int) -> str:
    """Return the payload of a copy; one of the copies of every tenth request differs."""
    return CHANGED if (number * COPIES + copy) % CHANGED_EVERY == 0 else PAYLOAD


def two_tenants(platform: RunningPlatform) -> dict[str, str]:
    """Return a token of each of two tenants; creates the second one."""
    platform.sql(
        "INSERT INTO tenancy_tenant (name, namespace, created_at)"
        " VALUES ('storm', 'tenant-storm', now()) ON CONFLICT DO NOTHING"
    )
    return {tenant: platform.token(tenant) for tenant in ("default", "storm")}


def _key_of(pool: Manifest) -> Key:
    found = pool["metadata"].get("annotations", {})
    return str(found.get(f"{GROUP}/tenant")), str(found.get(f"{GROUP}/operation-id"))


def read_state(platform: RunningPlatform, prefix: str) -> State:
    """Return the state of database and cluster."""
    pattern = f"{prefix}-%"
    operations = platform.sql(
        "SELECT t.name, o.operation_id, o.payload->>'memory', o.phase"
        " FROM operations_operation o JOIN tenancy_tenant t ON t.id = o.tenant_id"
        " WHERE o.operation_id LIKE %s",
        pattern,
    )
    rows = platform.sql(
        "SELECT t.name, o.operation_id FROM inventory_stockpool p"
        " JOIN operations_operation o ON o.id = p.operation_id"
        " JOIN tenancy_tenant t ON t.id = p.tenant_id"
        " WHERE o.operation_id LIKE %s AND p.uid <> '' AND p.deleted_at IS NULL",
        pattern,
    )
    cluster = platform.cluster()
    pools = cluster.list(STOCK_POOL).items
    cluster.close()
    return State(
        operations=[((tenant, one), memory, phase) for tenant, one, memory, phase in operations],
        rows=[(tenant, one) for tenant, one in rows],
        objects=[
            (_key_of(pool), pool["spec"]["memory"])
            for pool in pools
            if _key_of(pool)[1].startswith(f"{prefix}-")
        ],
    )
