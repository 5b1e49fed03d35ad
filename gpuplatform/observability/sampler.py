"""Takes samples of the platform for the overview. A beat schedule takes one every 30 seconds.

The overview counts rows up to a limit and uses the samples for larger counts.
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
"""Delay before operations are counted, so that their transactions have been committed."""

MAX_SPAN: Final = timedelta(minutes=10)
"""Maximum duration that a sample covers. The rest of a longer gap is not sampled."""


def take_sample() -> None:
    """Store the capacity, and a sample of the time since the previous sample."""
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
        return  # A concurrent task has just taken a sample.
    accepted, failed = operations_between(since, until)
    hour, day = claim_pace()
    PlatformSample.objects.create(
        at=until,
        seconds=(until - since).total_seconds(),
        accepted=accepted,
        failed=failed,
        oldest_due_seconds=state.oldest_due_seconds,
        hour_claims=hour.claims,
        hour_p50=hour.p50,
        hour_p95=hour.p95,
        day_claims=day.claims,
        day_p50=day.p50,
        day_p95=day.p95,
    )


def _database_time() -> datetime:
    """Return the time of the database, because the timestamps of rows are database times."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        moment: datetime = cursor.fetchone()[0]
        return moment


def _snapshot(state: SteadyState) -> Capacity:
    """Return the capacity with the idle time and the number of rows."""
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
