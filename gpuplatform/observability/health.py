"""How the platform is doing, from what each part left in the database and two short questions.

Answers within two seconds whatever is away: what could not be learned is null, never zero.
"""

import socket
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

import redis
from django.conf import settings
from django.db import Error as DatabaseFault
from django.db import connection

from gpuplatform.errors import PlatformError
from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.modes import get_cluster
from gpuplatform.operations.selectors import pending_operations
from gpuplatform.reconciliation.gate import cluster_state
from gpuplatform.reconciliation.heartbeats import (
    NO_CLUSTER,
    NO_QUEUE,
    Part,
    PartState,
    part_states,
    parts_off,
)
from gpuplatform.threads import ProcessThreads
from inventory.selectors import pool_count
from units.selectors import active_count, stock_ready_count

STARTED_AT: Final = datetime.now(UTC)
ANSWER_SECONDS: Final = 1.2
"""What the questions may take; all are asked at the same time."""

_QUEUE_PORT: Final = 4222
_LONGEST_GREETING: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Facts:
    """What the database knows; nothing at all when it does not answer."""

    database: PartState
    parts: Mapping[Part, PartState] = field(default_factory=dict)
    counts: Mapping[str, int | float | None] = field(default_factory=dict)
    recovery_reason: str = ""


_ASKERS = ProcessThreads(8, "health")


def health() -> dict[str, Any]:
    """Return the health document of the API, in its names."""
    questions = [_ASKERS.submit(ask) for ask in (_facts, _broker, _cluster, _queue)]
    facts = _in_time(questions[0], Facts(PartState(ok=False, detail="It does not answer.")))
    broker = _in_time(questions[1], PartState(ok=False, detail="It does not answer."))
    cluster = _in_time(questions[2], PartState(ok=False, detail="It does not answer."))
    queue = _in_time(questions[3], PartState(ok=False, detail="It does not answer."))
    if facts.recovery_reason:
        cluster = PartState(ok=False, detail=facts.recovery_reason)
    states = {"database": facts.database, "broker": broker, "cluster": cluster, "queue": queue}
    off = parts_off()
    for part in Part:
        unknown = PartState(ok=False, detail="unknown: the database does not answer")
        states[part.value] = off.get(part) or facts.parts.get(part, unknown)
    now = datetime.now(UTC)
    return {
        "ready": all(state.ok for state in states.values()),
        "startedAt": STARTED_AT,
        "uptimeSeconds": int((now - STARTED_AT).total_seconds()),
        "kubernetesConnected": cluster.ok and settings.KUBE_MODE != "off",
        "kubeError": "" if cluster.ok else cluster.detail,
        **{name: facts.counts.get(name) for name in _COUNTS},
        "parts": {name: {"ok": one.ok, "detail": one.detail} for name, one in states.items()},
    }


_COUNTS: Final = (
    "nodeCount",
    "readyNodeCount",
    "stockPoolCount",
    "stockUnitCount",
    "activeUnitCount",
    "pendingOperations",
    "oldestPendingSeconds",
)


def _in_time(question: "Future[Any]", otherwise: Any) -> Any:
    try:
        return question.result(timeout=ANSWER_SECONDS)
    except TooLate:
        question.cancel()
        return otherwise


def _facts() -> Facts:
    try:
        state = cluster_state()
        pending, oldest = pending_operations()
        return Facts(
            database=PartState(ok=True, detail="answers"),
            parts=part_states(),
            counts={
                "nodeCount": state.node_count,
                "readyNodeCount": state.ready_node_count,
                "stockPoolCount": pool_count(),
                "stockUnitCount": stock_ready_count(),
                "activeUnitCount": active_count(),
                "pendingOperations": pending,
                "oldestPendingSeconds": oldest,
            },
            recovery_reason=state.recovery_reason,
        )
    except DatabaseFault:
        return Facts(PartState(ok=False, detail="It does not answer."))
    finally:
        connection.close()


def _broker() -> PartState:
    """Ask the broker for a sign of life."""
    client = redis.Redis.from_url(
        settings.CELERY_BROKER_URL, socket_timeout=1, socket_connect_timeout=1
    )
    try:
        client.ping()
    except redis.RedisError:
        return PartState(ok=False, detail="It does not answer.")
    finally:
        client.close()
    return PartState(ok=True, detail="answers")


def _queue() -> PartState:
    """Read the greeting of the queue's server."""
    if not settings.NATS_URL:
        return NO_QUEUE
    address = urlsplit(settings.NATS_URL)
    try:
        where = (address.hostname or "", address.port or _QUEUE_PORT)
        with socket.create_connection(where, timeout=1) as link, link.makefile("rb") as words:
            greeting = words.readline(_LONGEST_GREETING)
    except (OSError, ValueError):
        return PartState(ok=False, detail="It does not answer.")
    if not greeting.startswith(b"INFO "):
        return PartState(ok=False, detail="It is no NATS server.")
    return PartState(ok=True, detail="answers")


def _cluster() -> PartState:
    """Ask the cluster for its version."""
    if settings.KUBE_MODE == "off":
        return NO_CLUSTER
    try:
        with deadline(1):
            return PartState(ok=True, detail=f"Kubernetes {get_cluster().version()}")
    except PlatformError as error:
        return PartState(ok=False, detail=str(error))
