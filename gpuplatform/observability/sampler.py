"""What a beat schedule keeps of the platform every half minute, for the overview to show.

The overview reads what is kept here, so that no page counts large tables. Part of the composition
root; all the counting is done in queries of their own, and nothing is locked.
"""

from datetime import datetime, timedelta
from typing import Final

from django.db import connection

from gpuplatform.observability.reporter import SteadyState, read_state
from gpuplatform.operations.selectors import operations_between
from gpuplatform.samples.capacity import Capacity, SpecCapacity
from gpuplatform.samples.models import PlatformSample
from gpuplatform.samples.services import capacity_store
from units.capacity import capacity
from units.pace import claim_pace, idle_gpu_seconds

SETTLE: Final = timedelta(seconds=5)
"""Jobs are counted so late that the transactions that accepted them have been committed."""

LONGEST: Final = timedelta(minutes=10)
"""Of what lies further back nothing is said: samples were not taken then."""


def take_sample() -> None:
    """Keep how the platform stands and what happened since the last time."""
    state = read_state()
    if state is None:
        return
    capacity_store(_snapshot(state))
    _keep_sample(state)


def _keep_sample(state: SteadyState) -> None:
    until = _database_time() - SETTLE
    latest = PlatformSample.objects.order_by("-at").values_list("at", flat=True).first()
    since = max(latest or until - SETTLE, until - LONGEST)
    if since >= until:
        return  # Another one has just been taken.
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
    """Return the time by the clock that the rows are stamped with."""
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
            "specs": [_with_idle(spec, *idle.get(spec.name, (0, 0))) for spec in current.specs],
            "counts": counts,
        }
    )


def _with_idle(spec: SpecCapacity, hour: int, day: int) -> SpecCapacity:
    return spec.model_copy(update={"idle_gpu_seconds_hour": hour, "idle_gpu_seconds_day": day})
