"""One gate before a cluster that is down, so that it is noticed once and not once a row.

The first worker that gets no answer closes it for a while, for every process; when the time is
over one sweep asks the cluster, and opens it.
"""

import logging
from datetime import timedelta

from django.db.models import Exists, F, Q
from django.db.models.functions import Now

from gpuplatform.errors import ClusterError, ClusterUnavailable, OperatorUnavailable
from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.modes import get_cluster
from gpuplatform.planning.backoff import backoff_seconds
from gpuplatform.reconciliation.models import ClusterState

logger = logging.getLogger(__name__)

LONGEST_CLOSED_SECONDS = 30.0
PROBE_SECONDS = 3.0

_CLOSED = Q(failures__gt=0) | ~Q(recovery_reason="")


def cluster_state() -> ClusterState:
    """Return the one row about the cluster, as it is now."""
    state, _ = ClusterState.objects.get_or_create(id=ClusterState.SINGLETON)
    return state


def is_closed() -> bool:
    """Say whether the cluster is known to be away or another's, so that nobody should ask it."""
    return ClusterState.objects.filter(_CLOSED).exists()


def open_gate() -> Q:
    """Return the opposite as a condition, for a statement that asks it by the way."""
    return ~Q(Exists(ClusterState.objects.filter(_CLOSED)))


def awaits_recovery() -> bool:
    """Say whether the cluster is known to be another's, so that nothing may be written."""
    return ClusterState.objects.exclude(recovery_reason="").exists()


def close(error: ClusterError) -> None:
    """Close the gate because the cluster did not answer; longer with each failure in a row."""
    state = cluster_state()
    seconds = error.retry_after or backoff_seconds(
        state.failures + 1, longest=LONGEST_CLOSED_SECONDS
    )
    closed = ClusterState.objects.filter(id=state.id, failures=state.failures).update(
        failures=F("failures") + 1,
        closed_until=Now() + timedelta(seconds=seconds),
        error=str(error)[:500],
    )
    if closed and state.failures == 0:
        logger.warning("the cluster does not answer: %s", error)


def is_unreachable(error: ClusterError) -> bool:
    """Say whether `error` means that nothing answered, as against one request that failed."""
    return isinstance(error, ClusterUnavailable) and error.status == 0


def probe() -> bool:
    """Ask the cluster if the gate is closed and its time is over; return whether it is open."""
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
    logger.warning("the cluster answers again")
    return True
