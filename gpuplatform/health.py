"""Health of the parts of the platform, for the API, the admin, the report and the metrics.

The health of the cluster and of the processes is read from rows. The broker, the queue and the API
server are probed, each for at most `PROBE_SECONDS`. Only the health API probes the API server.
"""

import logging
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

import redis
from django.conf import settings
from django.db import connection
from django.db.models import TextChoices
from django.db.models.functions import Now

from gpuplatform.errors import PlatformError
from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.modes import get_cluster
from gpuplatform.queueing import Queue, keys_of
from gpuplatform.rates.counters import COUNTERS
from gpuplatform.reconciliation.heartbeats import FRESH_SECONDS, Part
from gpuplatform.reconciliation.models import ClusterState, ProcessHeartbeat
from gpuplatform.samples.models import PlatformSample

logger = logging.getLogger(__name__)

PROBE_SECONDS: Final = 1

MAX_BACKLOG: Final = 1_000
"""Maximum number of messages in a healthy broker queue. The alert uses the same threshold."""

OVERDUE_SECONDS: Final = 120.0
"""Seconds after which a due row is overdue. The alert uses the same threshold."""

SAMPLE_SECONDS: Final = 180.0
"""Maximum age in seconds of a current sample. Samples are taken every 30 seconds."""

_NEED_CLUSTER: Final = frozenset({Part.CONTROLLER, Part.ACTIVATOR})
"""Processes that send heartbeats only while they hold a Lease in the cluster."""
_NEED_QUEUE: Final = frozenset({Part.ACTIVATOR, Part.RESULTS})

_NO_CLUSTER: Final = "off by configuration (KUBE_MODE=off)"
_NO_QUEUE: Final = "off by configuration (NATS_URL is not set)"
_OWN_COUNTS: Final = (
    "The broker does not count requests, so this web process allows half of each rate."
)

_QUEUE_PORT: Final = 4222
_MAX_GREETING: Final = 64 * 1024


class HealthCode(TextChoices):
    """Machine-readable state of a part.

    The label is the human-readable summary.
    """

    HEALTHY = "healthy", "Healthy"
    OFF = "off", "Off by configuration"
    BACKLOG = "backlog", "Many messages are queued"
    DEGRADED = "degraded", "Works with a known problem"
    NO_SAMPLE = "no_sample", "No sample yet"
    STALE_SAMPLE = "stale_sample", "No recent sample; check beat"
    UNKNOWN = "unknown", "Not observed yet"
    NOT_RUNNING = "not_running", "Not running"
    WAITING_FOR_CLUSTER = "waiting_for_cluster", "Waiting for the cluster"
    NO_HEARTBEAT = "no_heartbeat", f"No heartbeat for {FRESH_SECONDS} s"
    NO_READY_NODE = "no_ready_node", "No node is ready"
    OVERDUE = "overdue", "Work is overdue"
    READ_ONLY = "read_only", "Accepts no writes"
    RECOVERY_NEEDED = "recovery_needed", "Recovery needed"
    UNREACHABLE = "unreachable", "Does not respond"
    WRONG_SERVER = "wrong_server", "Not a NATS server"


_OK: Final = frozenset(
    {HealthCode.HEALTHY, HealthCode.OFF, HealthCode.BACKLOG, HealthCode.DEGRADED}
)
_UNAVAILABLE: Final = frozenset({HealthCode.UNREACHABLE, HealthCode.RECOVERY_NEEDED})
"""Codes of the cluster in which no process can hold a Lease."""


@dataclass(frozen=True, slots=True)
class PartHealth:
    """The health of a part."""

    part: str
    code: HealthCode
    detail: str = ""
    """Human-readable details, such as the error. Can be empty."""
    since: datetime | None = None
    """Time of the last heartbeat or observation. For due work, when the oldest row became due."""

    @property
    def ok(self) -> bool:
        """Whether the part works or is off by configuration."""
        return self.code in _OK

    @property
    def summary(self) -> str:
        """The human-readable summary of the code."""
        return str(self.code.label)


def database_health() -> PartHealth:
    """Return the health of the database: whether it accepts writes.

    Raises:
        django.db.Error: If the database does not respond.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('transaction_read_only')")
        is_read_only = cursor.fetchone()[0] == "on"
    return PartHealth("database", HealthCode.READ_ONLY if is_read_only else HealthCode.HEALTHY)


def recorded_cluster_health() -> PartHealth:
    """Return the health of the cluster that the controller and the gate recorded."""
    if settings.KUBE_MODE == "off":
        return PartHealth("cluster", HealthCode.OFF, _NO_CLUSTER)
    state = ClusterState.objects.filter(pk=ClusterState.SINGLETON).first() or ClusterState()
    code, detail = _cluster_code(state)
    return PartHealth("cluster", code, detail, state.seen_at)


def _cluster_code(state: ClusterState) -> tuple[HealthCode, str]:
    if state.recovery_reason:
        return HealthCode.RECOVERY_NEEDED, state.recovery_reason
    if state.failures:
        return HealthCode.UNREACHABLE, state.error
    if state.seen_at is None:
        return HealthCode.UNKNOWN, ""
    ready, nodes = state.ready_node_count or 0, state.node_count or 0
    code = HealthCode.NO_READY_NODE if nodes and not ready else HealthCode.HEALTHY
    return code, f"{ready} of {nodes} nodes ready"


def probed_cluster_health() -> PartHealth:
    """Return the health of the cluster: whether the API server responds now."""
    if settings.KUBE_MODE == "off":
        return PartHealth("cluster", HealthCode.OFF, _NO_CLUSTER)
    try:
        with deadline(PROBE_SECONDS):
            version = get_cluster().version()
    except PlatformError as error:
        return PartHealth("cluster", HealthCode.UNREACHABLE, str(error))
    return PartHealth("cluster", HealthCode.HEALTHY, f"Kubernetes {version}")


def process_health(cluster: PartHealth) -> list[PartHealth]:
    """Return the health of each process, determined from its last heartbeat.

    Processes that need the cluster send no heartbeat while `cluster` is unavailable.
    """
    rows = ProcessHeartbeat.objects.annotate(database_time=Now())
    heartbeats = {
        row.part: (row.seen_at, row.database_time - row.seen_at, row.detail) for row in rows
    }
    return [_process(part, heartbeats.get(part), cluster) for part in Part]


def _process(
    part: Part, heartbeat: tuple[datetime, timedelta, str] | None, cluster: PartHealth
) -> PartHealth:
    seen_at, age, detail = heartbeat or (None, None, "")
    if age is not None and age <= timedelta(seconds=FRESH_SECONDS):
        return PartHealth(part, HealthCode.HEALTHY, detail, seen_at)
    if reason := _off_reason(part):
        return PartHealth(part, HealthCode.OFF, reason)
    if part in _NEED_CLUSTER and cluster.code in _UNAVAILABLE:
        return PartHealth(part, HealthCode.WAITING_FOR_CLUSTER, "", seen_at)
    return PartHealth(
        part, HealthCode.NOT_RUNNING if seen_at is None else HealthCode.NO_HEARTBEAT, "", seen_at
    )


def _off_reason(part: Part) -> str:
    """Return the reason why a process is off by configuration, or an empty string."""
    if part in _NEED_CLUSTER | _NEED_QUEUE and settings.KUBE_MODE == "off":
        return _NO_CLUSTER
    return _NO_QUEUE if part in _NEED_QUEUE and not settings.NATS_URL else ""


def due_work_health(sample: PlatformSample | None, now: datetime) -> PartHealth:
    """Return the health of due work: whether a due row waits too long for a worker."""
    part = "due work"
    if sample is None:
        return PartHealth(part, HealthCode.NO_SAMPLE)
    if (now - sample.at).total_seconds() > SAMPLE_SECONDS:
        return PartHealth(part, HealthCode.STALE_SAMPLE, "", sample.at)
    oldest = sample.oldest_due_seconds
    if oldest is None:
        return PartHealth(part, HealthCode.HEALTHY, "nothing is due")
    code = HealthCode.OVERDUE if oldest > OVERDUE_SECONDS else HealthCode.HEALTHY
    return PartHealth(
        part, code, "time since the oldest row became due", now - timedelta(seconds=oldest)
    )


def queue_lengths() -> dict[str, int] | None:
    """Return the number of messages by broker queue, or `None` if the broker does not respond."""
    client = redis.Redis.from_url(
        settings.CELERY_BROKER_URL,
        socket_timeout=PROBE_SECONDS,
        socket_connect_timeout=PROBE_SECONDS,
    )
    try:
        with client.pipeline(transaction=False) as pipeline:
            keys = [(queue.value, key) for queue in Queue for key in keys_of(queue)]
            for _, key in keys:
                pipeline.llen(key)
            lengths: Counter[str] = Counter()
            for (name, _), length in zip(keys, pipeline.execute(), strict=True):
                lengths[name] += length
            return dict(lengths)
    except redis.RedisError as error:
        logger.warning("the broker does not respond: %s", error)
        return None
    finally:
        client.close()


def broker_health(lengths: Mapping[str, int] | None) -> PartHealth:
    """Return the health of the broker, determined from the lengths of its queues."""
    if lengths is None:
        return PartHealth("broker", HealthCode.UNREACHABLE)
    queued = ", ".join(f"{name} {length}" for name, length in lengths.items() if length)
    is_long = max(lengths.values()) > MAX_BACKLOG
    detail = f"queued messages: {queued}" if queued else "queues are empty"
    return PartHealth("broker", HealthCode.BACKLOG if is_long else HealthCode.HEALTHY, detail)


def rates_health() -> PartHealth:
    """Return the health of the rates of requests: whether the broker counts for this process."""
    if COUNTERS.get().is_degraded:
        return PartHealth("rates", HealthCode.DEGRADED, _OWN_COUNTS)
    return PartHealth("rates", HealthCode.HEALTHY)


def queue_health() -> PartHealth:
    """Return the health of the queue: whether a NATS server sends its greeting."""
    if not settings.NATS_URL:
        return PartHealth("queue", HealthCode.OFF, _NO_QUEUE)
    url = urlsplit(settings.NATS_URL)
    try:
        address = (url.hostname or "", url.port or _QUEUE_PORT)
        with (
            socket.create_connection(address, timeout=PROBE_SECONDS) as connected,
            connected.makefile("rb") as stream,
        ):
            greeting = stream.readline(_MAX_GREETING)
    except (OSError, ValueError):
        return PartHealth("queue", HealthCode.UNREACHABLE)
    is_nats = greeting.startswith(b"INFO ")
    return PartHealth("queue", HealthCode.HEALTHY if is_nats else HealthCode.WRONG_SERVER)
