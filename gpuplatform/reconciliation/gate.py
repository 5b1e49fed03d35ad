"""The gate: no process reconciles or executes operations while the cluster is unreachable.

The first worker that gets no response closes the gate for all processes, for a limited time. After
that time a sweep probes the cluster and opens the gate if the cluster responds.
"""

import logging
from datetime import timedelta

from django.db import connection
from django.db.models import Exists, F, Q
from django.db.models.functions import Now

from gpuplatform.errors import OperatorUnavailable
from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.errors import ClusterError, ClusterUnavailable
from gpuplatform.kube.modes import get_cluster
from gpuplatform.planning.backoff import backoff_seconds
from gpuplatform.reconciliation.models import ClusterState

logger = logging.getLogger(__name__)

MAX_CLOSED_SECONDS = 30.0
PROBE_SECONDS = 3.0

_CLOSED = Q(failures__gt=0) | ~Q(recovery_reason="")
_AWAITS_RECOVERY = "SELECT 1 FROM reconciliation_clusterstate WHERE recovery_reason <> ''"
"""Part of each accepted write. The compilation of a queryset would take most of its time."""


def cluster_state() -> ClusterState:
    """Return the row with the state of the cluster."""
    state, _ = ClusterState.objects.get_or_create(id=ClusterState.SINGLETON)
    return state


def is_closed() -> bool:
    """Return whether the gate is closed: the cluster is unreachable, or a recovery is needed."""
    return ClusterState.objects.filter(_CLOSED).exists()


def open_gate() -> Q:
    """Return the condition "the gate is open" for use in another query."""
    return ~Q(Exists(ClusterState.objects.filter(_CLOSED)))


def awaits_recovery() -> bool:
    """Return whether the epochs differ, so that a recovery must precede every write."""
    with connection.cursor() as cursor:
        cursor.execute(_AWAITS_RECOVERY)
        return cursor.fetchone() is not None


def close(error: ClusterError) -> None:
    """Close the gate after a request without a response.

    The duration doubles with each failure.
    """
    state = cluster_state()
    seconds = error.retry_after or backoff_seconds(state.failures + 1, longest=MAX_CLOSED_SECONDS)
    closed = ClusterState.objects.filter(id=state.id, failures=state.failures).update(
        failures=F("failures") + 1,
        closed_until=Now() + timedelta(seconds=seconds),
        error=str(error)[:500],
    )
    if closed and state.failures == 0:
        logger.warning("the cluster does not respond: %s", error)


def is_unreachable(error: ClusterError) -> bool:
    """Return whether there was no response at all, not an error response."""
    return isinstance(error, ClusterUnavailable) and error.status == 0


def probe() -> bool:
    """Return whether the gate is open. Probe the cluster first if the closed time has passed."""
    if not is_closed():
        return True
    if ClusterState.objects.filter(Q(closed_until__gt=Now()) | ~Q(recovery_reason="")).exists():
        return False
    try:
        with deadline(PROBE_SECONDS):
            get_cluster().version()
    except OperatorUnavailable:
        return False
    except ClusterError as error:
        close(error)
        return False
    ClusterState.objects.filter(id=ClusterState.SINGLETON).update(
        failures=0, closed_until=None, error=""
    )
    logger.warning("the cluster responds again")
    return True
