"""Samples of the platform, which a beat schedule takes every 30 seconds for the overview.

The overview counts rows up to a cap and reads the rest from the samples. The queries lock nothing.
"""

from datetime import datetime, timedelta
from typing import Final

from django.db import connection

from gpuplatform.observability.reporter import SteadyState, read_state
from gpuplatform.operations.selectors import operations_between
from gpuplatform.samples.capacity import Capacity
from gpuplatform.samples.models import PlatformSample
from gpuplatform.samples.services import capacity_store
from units.capacity import capacity
from units.pace import claim_pace, idle_gpu_seconds

SETTLE_DELAY: Final = timedelta(seconds=5)
"""Delay after which operations are counted, so that open transactions have committed."""

MAX_SPAN: Final = timedelta(minutes=10)
"""Maximum time that one sample covers; a longer gap counts as unsampled time."""


def take_sample() -> None:
    """Store the capacity, and what happened since the previous sample."""
    state = read_state()
    if state is None:
        return
    capacity_store(_snapshot(state))
    _keep_sample(state)


def _keep_sample(state: SteadyState) -> None:
    until = _database_time() - SETTLE_DELAY
    latest = PlatformSample.objects.order_by("-at").values_list("at", flat=True).first()
    since = max(latest or until - SETTLE_DELAY, until - MAX_SPAN)
    if since >= until:
        return  # A concurrent run has just taken one.
    accepted, failed = operations_between(since, until)
    hour, day = claim_pace()
    due = [seconds for seconds in state.due_seconds.values() if seconds is not None]
    PlatformSample.objects.create(
        at=until,
        seconds=(until - since).total_seconds(),
        accepted=accepted,
        failed=failed,
        oldest_due_seconds=max(due) if due else None,
        hour_claims=hour.claims,
        hour_p50=hour.p50,
        hour_p95=hour.p95,
        day_claims=day.claims,
        day_p50=day.p50,
        day_p95=day.p95,
    )


def _database_time() -> datetime:
    """Return the time of the database, whose clock stamps the rows."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        moment: datetime = cursor.fetchone()[0]
        return moment


def _snapshot(state: SteadyState) -> Capacity:
    """Return the capacity with what only the stored document has: idle time and row counts."""
    current, idle = capacity(), idle_gpu_seconds()
    counts: dict[str, dict[str, int]] = {"pools": dict(state.pools)}
    for (role, phase), number in state.units.items():
        counts.setdefault(role, {})[phase] = number
    return current.model_copy(
        update={
            "specs": [
                spec.model_copy(update={"idle_gpu_seconds_day": idle.get(spec.name, 0)})
                for spec in current.specs
            ],
            "counts": counts,
        }
    )
