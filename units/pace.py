"""Measures the time from claim to readiness of units, and the idle GPU time of stock."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db.models import (
    Aggregate,
    Count,
    DurationField,
    ExpressionWrapper,
    F,
    Min,
    Q,
    Sum,
)
from django.db.models.functions import Now

from units.models import CapacitySample, UnitHistory
from units.phases import UnitPhase, UnitRole

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ClaimPace:
    """Number of claims in a time range, and quantiles of the seconds from claim to readiness."""

    claims: int
    p50: float | None
    p95: float | None


class Percentile(Aggregate):
    """The continuous percentile: the value that a fraction `part` of the rows does not exceed."""

    function = "percentile_cont"
    name = "Percentile"
    template = "%(function)s(%(part)s) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = DurationField()

    def __init__(self, expression: str, *, part: float, **extra: Any) -> None:
        """Initialize the aggregate; `part` is 0.5 for the median."""
        super().__init__(expression, part=float(part), **extra)


def claim_pace() -> tuple[ClaimPace, ClaimPace]:
    """Return the pace of the units that became ready in the last hour, and in the last day."""
    since = Now() - DAY
    took = ExpressionWrapper(F("ready_at") - F("unit__created_at"), output_field=DurationField())
    first = (
        UnitHistory.objects.filter(phase=UnitPhase.READY, at__gt=since, unit__role=UnitRole.ACTIVE)
        .filter(unit__created_at__gt=since)
        .exclude(unit__source_name="")
        .order_by()
        .values("unit_id", "unit__created_at")
        .annotate(ready_at=Min("at"), took=took)
    )
    in_hour = Q(ready_at__gt=Now() - HOUR)
    found = first.aggregate(
        hour_claims=Count("unit_id", filter=in_hour),
        hour_p50=Percentile("took", part=0.5, filter=in_hour),
        hour_p95=Percentile("took", part=0.95, filter=in_hour),
        day_claims=Count("unit_id"),
        day_p50=Percentile("took", part=0.5),
        day_p95=Percentile("took", part=0.95),
    )
    return _pace(found, "hour"), _pace(found, "day")


def idle_gpu_seconds() -> dict[str, int]:
    """Return the GPU-seconds that ready stock held in the last day, by GPU spec."""
    samples = CapacitySample.objects.filter(at__gt=Now() - DAY).order_by()
    return dict(samples.values_list("spec_name").annotate(Sum("idle_gpu_seconds")))


def _pace(found: dict[str, Any], name: str) -> ClaimPace:
    return ClaimPace(
        found[f"{name}_claims"], _seconds(found[f"{name}_p50"]), _seconds(found[f"{name}_p95"])
    )


def _seconds(value: timedelta | None) -> float | None:
    return None if value is None else max(value.total_seconds(), 0.0)
