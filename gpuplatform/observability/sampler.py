"""What a beat schedule keeps of the platform every half minute, for the overview to show.

The overview reads what is kept here, so that no page counts large tables. Part of the composition
root; all the counting is done in queries of their own, and nothing is locked.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection

from gpuplatform.observability.reporter import SteadyState, read_state
from gpuplatform.operations.selectors import operations_between
from gpuplatform.samples.capacity import CapacitySeen, ProductSeen, SpecSeen
from gpuplatform.samples.models import PlatformSample
from gpuplatform.samples.services import capacity_keep
from units.capacity import Capacity, SpecStanding, capacity
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
    capacity_keep(_seen(state, capacity(), idle_gpu_seconds()))
    _keep_sample(state)


def _keep_sample(state: SteadyState) -> None:
    until = _database_time() - SETTLE
    latest = PlatformSample.objects.order_by("-at").values_list("at", flat=True).first()
    since = max(latest or until - SETTLE, until - LONGEST)
    if since >= until:
        return  # Another one has just been taken.
    accepted, succeeded, failed = operations_between(since, until)
    hour, day = claim_pace()
    due = [seconds for seconds in state.due_seconds.values() if seconds is not None]
    PlatformSample.objects.create(
        at=until,
        seconds=(until - since).total_seconds(),
        accepted=accepted,
        succeeded=succeeded,
        failed=failed,
        open_jobs=sum(state.operations.values()),
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


def _seen(
    state: SteadyState, found: Capacity, idle: Mapping[str, tuple[int, int]]
) -> CapacitySeen:
    products = found.products
    counts: dict[str, dict[str, int]] = {"pools": dict(state.pools)}
    for (role, phase), number in state.units.items():
        counts.setdefault(role, {})[phase] = number
    return CapacitySeen(
        counts=counts,
        specs=[_spec(spec, *idle.get(spec.name, (0, 0))) for spec in found.specs],
        products=None
        if products is None
        else [
            ProductSeen(
                name=one.name,
                nodes=one.nodes,
                total=one.total,
                allocatable=one.allocatable,
                free=one.free,
                gpus=one.gpus,
            )
            for one in products
        ],
    )


def _spec(spec: SpecStanding, idle_hour: int, idle_day: int) -> SpecSeen:
    counts = spec.counts
    return SpecSeen(
        name=spec.name,
        product=spec.product,
        misfit=spec.misfit,
        ready=counts.ready,
        claimed=counts.claimed,
        starting=counts.starting,
        failed=counts.failed,
        deleting=counts.deleting,
        active=counts.active,
        pods_of_pools=spec.pods_of_pools,
        gpus=spec.gpus,
        idle_gpu_seconds_hour=idle_hour,
        idle_gpu_seconds_day=idle_day,
        **_entry(spec),
    )


def _entry(spec: SpecStanding) -> dict[str, Any]:
    entry = spec.entry
    if entry is None:
        return {"is_catalogued": False}
    return {
        "gpu": entry.gpu,
        "is_enabled": entry.is_enabled,
        "warm_target": entry.warm_target,
        "is_top_up_paused": entry.is_top_up_paused,
    }
