"""The health document of the API, with the health of all parts and the number of objects.

The document is complete within two seconds, even if a part does not respond. An unknown number is
null, never zero.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Timeout
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from django.db import Error as DatabaseFault
from django.db import connection

from gpuplatform.health import (
    HealthCode,
    PartHealth,
    broker_health,
    database_health,
    probed_cluster_health,
    process_health,
    queue_health,
    queue_lengths,
    rates_health,
    recorded_cluster_health,
)
from gpuplatform.operations.selectors import pending_operations
from gpuplatform.process_local import ProcessLocal, ProcessThreads
from gpuplatform.reconciliation.gate import cluster_state
from gpuplatform.reconciliation.heartbeats import Part
from inventory.selectors import pool_count
from units.selectors import active_count, stock_ready_count

STARTED_AT: Final = datetime.now(UTC)
ANSWER_SECONDS: Final = 1.2
"""Maximum duration in seconds of the probes, which run concurrently."""
RECENT_SECONDS: Final = 1.0

COUNTS: Final = (
    "nodeCount",
    "readyNodeCount",
    "stockPoolCount",
    "stockUnitCount",
    "activeUnitCount",
    "pendingOperations",
    "oldestPendingSeconds",
)
"""The fields that describe the objects of all tenants."""
_REACHABLE: Final = frozenset({HealthCode.HEALTHY, HealthCode.NO_READY_NODE})
_THREADS = ProcessThreads(8, "health")


@dataclass(frozen=True, slots=True)
class _Records:
    """The records in the database. The defaults apply if the database does not respond."""

    database: PartHealth
    cluster: PartHealth | None = None
    processes: Sequence[PartHealth] = tuple(PartHealth(part, HealthCode.UNKNOWN) for part in Part)
    counts: Mapping[str, int | float | None] = field(default_factory=lambda: dict.fromkeys(COUNTS))


_NO_RECORDS: Final = _Records(PartHealth("database", HealthCode.UNREACHABLE))


def health() -> dict[str, Any]:
    """Return the health document, by the field names of the API."""
    probes: dict[str, Future[Any]] = {
        "database": _THREADS.submit(_records),
        "broker": _THREADS.submit(lambda: broker_health(queue_lengths())),
        "cluster": _THREADS.submit(probed_cluster_health),
        "queue": _THREADS.submit(queue_health),
    }
    records: _Records = _answer(probes["database"], _NO_RECORDS)
    broker, probed_cluster, queue = (
        _answer(probes[part], PartHealth(part, HealthCode.UNREACHABLE))
        for part in ("broker", "cluster", "queue")
    )
    cluster = _cluster(records.cluster, probed_cluster)
    parts = [records.database, broker, rates_health(), cluster, queue, *records.processes]
    is_connected = cluster.code in _REACHABLE
    return {
        "ready": all(part.ok for part in parts),
        "startedAt": STARTED_AT,
        "uptimeSeconds": int((datetime.now(UTC) - STARTED_AT).total_seconds()),
        "kubernetesConnected": is_connected,
        "kubeError": "" if is_connected or cluster.ok else cluster.detail or cluster.summary,
        **records.counts,
        "parts": {
            part.part: {
                "ok": part.ok,
                "code": part.code,
                "detail": part.detail or part.summary,
            }
            for part in parts
        },
    }


class _Recent:
    """The last document that was read, for callers for whom it need not be current."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.read_at = float("-inf")
        self.document: Mapping[str, Any] = {}


_RECENT: Final = ProcessLocal(_Recent)


def recent_health() -> dict[str, Any]:
    """Return a health document without numbers, which was read within `RECENT_SECONDS`.

    Concurrent calls cause one read, so that callers without a token cause a limited load.
    """
    recent = _RECENT.get()
    with recent.lock:
        if time.monotonic() - recent.read_at > RECENT_SECONDS:
            recent.document = {**health(), **dict.fromkeys(COUNTS)}
            recent.read_at = time.monotonic()
        return dict(recent.document)


def _answer(probe: "Future[Any]", otherwise: Any) -> Any:
    try:
        return probe.result(timeout=ANSWER_SECONDS)
    except Timeout:
        probe.cancel()
        return otherwise


def _cluster(recorded: PartHealth | None, probed: PartHealth) -> PartHealth:
    """Return the probed health, unless only the recorded health shows a problem."""
    if recorded is None:
        return probed
    needs_recovery = recorded.code is HealthCode.RECOVERY_NEEDED
    is_without_nodes = recorded.code is HealthCode.NO_READY_NODE and probed.ok
    return recorded if needs_recovery or is_without_nodes else probed


def _records() -> _Records:
    try:
        state = cluster_state()
        pending, oldest = pending_operations()
        cluster = recorded_cluster_health()
        counts = (
            state.node_count,
            state.ready_node_count,
            pool_count(),
            stock_ready_count(),
            active_count(),
            pending,
            oldest,
        )
        return _Records(
            database_health(),
            cluster,
            process_health(cluster),
            dict(zip(COUNTS, counts, strict=True)),
        )
    except DatabaseFault:
        return _NO_RECORDS
    finally:
        connection.close()
