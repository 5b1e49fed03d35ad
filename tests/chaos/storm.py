"""X1, the duplicate storm: the same requests again and again at the same moment, and the books.

Callers write what they were told into a file outside the system; afterwards database and cluster
are read, and `violations` compares. It is pure, and tested with planted faults.
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
from typing import Any, Final

from gpuplatform.dev.embedded.ports import LOOPBACK
from gpuplatform.kube.kinds import GROUP, STOCK_POOL, Manifest
from tests.acceptance.platform import POOLS, RunningPlatform
from tests.benchmarks.bench import at_once

COPIES: Final = 8
"""How often each request is sent at the same moment."""
THREADS: Final = 2 * COPIES
CHANGED_EVERY: Final = 10
"""One of so many requests has another payload than its copies."""
PAYLOAD, CHANGED = "1Gi", "2Gi"
"""The memory of a pool tells which payload won."""

Key = tuple[str, str]
"""Tenant and operationID."""


@dataclass(frozen=True, slots=True)
class Said:
    """One request of the storm, and what its caller was told; status 0: it hung up before."""

    tenant: str
    operation_id: str
    memory: str
    status: int
    code: str = ""

    @property
    def key(self) -> Key:
        """Whose request it is."""
        return self.tenant, self.operation_id


@dataclass(frozen=True, slots=True)
class Made:
    """What database and cluster have: the operations with their phase, and the objects."""

    operations: Sequence[tuple[Key, str, str]]
    """Key, memory and phase."""
    rows: Sequence[Key]
    objects: Sequence[tuple[Key, str]]
    """Key and memory, as the marks and the spec of the object say."""


def violations(ledger: Sequence[Said], made: Made) -> list[str]:
    """Return what is wrong, as sentences; empty when the books balance."""
    asked = {said.key for said in ledger}
    won = {key: memory for key, memory, _ in made.operations}
    faults = [
        *_counted("operations", [key for key, _, _ in made.operations], asked),
        *_counted("rows", made.rows, asked),
        *_counted("objects", [key for key, _ in made.objects], asked),
    ]
    faults += [
        f"{key}: ended {phase}" for key, _, phase in made.operations if phase != "Succeeded"
    ]
    faults += [
        f"{key}: the object is that of another payload"
        for key, memory in made.objects
        if won.get(key) != memory
    ]
    by_key: dict[Key, list[Said]] = defaultdict(list)
    for said in ledger:
        by_key[said.key].append(said)
    for key, lines in by_key.items():
        faults += _answers(key, lines, won.get(key, ""))
    return faults


def _counted(what: str, found: Sequence[Key], asked: set[Key]) -> Iterator[str]:
    counts = Counter(found)
    for key in sorted(asked | counts.keys()):
        if counts[key] != (wanted := int(key in asked)):
            yield f"{key}: {counts[key]} {what}, not {wanted}"


def _answers(key: Key, lines: Sequence[Said], won: str) -> Iterator[str]:
    firsts = sum(said.status == 202 for said in lines)
    may_be_lost = any(said.status == 0 and said.memory == won for said in lines)
    if firsts > 1 or (firsts == 0 and not may_be_lost):
        yield f"{key}: {firsts} answers of 202"
    for said in lines:
        wanted = {200, 202} if said.memory == won else {409}
        if said.status not in wanted | {0}:
            yield f"{key}: {said.memory} was answered with {said.status} {said.code}"
        elif said.status == 409 and said.code != "operation_conflict":
            yield f"{key}: the conflict is called {said.code}"


class Ledger:
    """A file that is only ever appended to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def write(self, said: Said) -> None:
        """Add a line."""
        with self._lock, self._path.open("a") as lines:
            lines.write(json.dumps(asdict(said)) + "\n")

    def read(self) -> list[Said]:
        """Return every line."""
        return [Said(**json.loads(line)) for line in self._path.read_text().splitlines()]


class Storm:
    """So many operationIDs of each tenant, each sent `COPIES` times at the same moment."""

    def __init__(self, port: int, ledger: Ledger, secrets: Mapping[str, str], prefix: str) -> None:
        """`secrets` are the tenants' tokens."""
        self._port = port
        self._ledger = ledger
        self._secrets = secrets
        self._prefix = prefix
        self._own = threading.local()
        self._opened: list[http.client.HTTPConnection] = []

    def blow(self, ids: int) -> None:
        """Send everything; half of the callers hang up first, and send theirs again."""
        calls = [
            partial(self._ask, tenant, f"{self._prefix}-{number}", copy, _memory(number, copy))
            for number in range(ids)
            for copy in range(COPIES)
            for tenant in self._secrets
        ]
        try:
            at_once(calls, THREADS)
        finally:
            for connection in self._opened:
                connection.close()

    def _ask(self, tenant: str, operation_id: str, copy: int, memory: str) -> None:
        body = {"operationID": operation_id, "specName": "g1.1", "replicas": 0, "memory": memory}
        text = json.dumps(body)
        if copy % 2:
            self._hang_up(tenant, text)
            self._ledger.write(Said(tenant, operation_id, memory, 0))
        status, found = self._send(tenant, text)
        code = str((found.get("error") or {}).get("code", ""))
        self._ledger.write(Said(tenant, operation_id, memory, status, code))

    def _headers(self, tenant: str) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {self._secrets[tenant]}",
            "Content-Type": "application/json",
        }

    def _hang_up(self, tenant: str, text: str) -> None:
        connection = self._new()
        connection.request("POST", POOLS, text, self._headers(tenant))
        assert isinstance(connection.sock, socket.socket)
        connection.sock.close()
        connection.close()

    def _send(self, tenant: str, text: str) -> tuple[int, Any]:
        """Send one request on this thread's connection; once more where the server closed it."""
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
    """Return the payload of a copy: of every tenth one it is another, early or late."""
    return CHANGED if (number * COPIES + copy) % CHANGED_EVERY == 0 else PAYLOAD


def two_tenants(platform: RunningPlatform) -> dict[str, str]:
    """Return a token of each of two tenants; the second one is made for this."""
    platform.sql(
        "INSERT INTO tenancy_tenant (name, namespace, created_at)"
        " VALUES ('storm', 'tenant-storm', now()) ON CONFLICT DO NOTHING"
    )
    return {tenant: platform.token(tenant) for tenant in ("default", "storm")}


def _key_of(pool: Manifest) -> Key:
    found = pool["metadata"].get("annotations", {})
    return str(found.get(f"{GROUP}/tenant")), str(found.get(f"{GROUP}/operation-id"))


def read_truth(platform: RunningPlatform, prefix: str) -> Made:
    """Read database and cluster."""
    mine = f"{prefix}-%"
    operations = platform.sql(
        "SELECT t.name, o.operation_id, o.payload->>'memory', o.phase"
        " FROM operations_operation o JOIN tenancy_tenant t ON t.id = o.tenant_id"
        " WHERE o.operation_id LIKE %s",
        mine,
    )
    rows = platform.sql(
        "SELECT t.name, o.operation_id FROM inventory_stockpool p"
        " JOIN operations_operation o ON o.id = p.operation_id"
        " JOIN tenancy_tenant t ON t.id = p.tenant_id"
        " WHERE o.operation_id LIKE %s AND p.uid <> '' AND p.deleted_at IS NULL",
        mine,
    )
    cluster = platform.cluster()
    pools = cluster.list(STOCK_POOL).items
    cluster.close()
    return Made(
        operations=[((tenant, one), memory, phase) for tenant, one, memory, phase in operations],
        rows=[(tenant, one) for tenant, one in rows],
        objects=[
            (_key_of(pool), pool["spec"]["memory"])
            for pool in pools
            if _key_of(pool)[1].startswith(f"{prefix}-")
        ],
    )
