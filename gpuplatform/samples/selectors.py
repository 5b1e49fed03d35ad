"""Queries of samples and of runs of periodic tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db.models import Avg, Case, DateTimeField, F, Func, Sum, Value, When, Window
from django.db.models.functions import Now, RowNumber
from pydantic import ValidationError

from gpuplatform.samples.capacity import Capacity
from gpuplatform.samples.models import KEPT_RUNS, CapacitySnapshot, PlatformSample, TaskRun

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
HOUR_STEP: Final = timedelta(minutes=1)
DAY_STEP: Final = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Bucket:
    """The sum of the samples of one minute or of 15 minutes."""

    at: datetime
    """Start of the period."""
    seconds: float = 0.0
    """Seconds that the samples cover, 0 without samples."""
    accepted: int = 0
    failed: int = 0
    p50: float | None = None
    p95: float | None = None

    @property
    def rate(self) -> float | None:
        """Number of accepted operations per minute, `None` without samples."""
        return self.accepted / self.seconds * 60 if self.seconds else None

    def plus(self, other: "Bucket") -> "Bucket":
        """Return the sum of both buckets, with the start of this one and the later quantiles."""
        return Bucket(
            self.at,
            self.seconds + other.seconds,
            self.accepted + other.accepted,
            self.failed + other.failed,
            self.p50 if other.p50 is None else other.p50,
            self.p95 if other.p95 is None else other.p95,
        )


def runs_of(schedules: Sequence[str]) -> Mapping[str, Sequence[TaskRun]]:
    """Return the newest runs of each schedule by its name, newest first, with one query."""
    newest_first = Window(RowNumber(), partition_by="schedule", order_by="-started_at")
    ranked = TaskRun.objects.filter(schedule__in=schedules).annotate(rank=newest_first)
    runs: dict[str, list[TaskRun]] = {}
    for run in ranked.filter(rank__lte=KEPT_RUNS).order_by("schedule", "rank"):
        runs.setdefault(run.schedule, []).append(run)
    return runs


def latest_sample() -> PlatformSample | None:
    """Return the newest sample, or `None` if no sample exists."""
    return PlatformSample.objects.order_by("-at").first()


def buckets_of_a_day() -> list[Bucket]:
    """Return the last day in buckets of 15 minutes, the last hour in minutes, oldest first."""
    recent = When(at__gt=Now() - HOUR, then=_begin_of(HOUR_STEP))
    rows = (
        PlatformSample.objects.filter(at__gt=Now() - DAY)
        .order_by()
        .annotate(begin=Case(recent, default=_begin_of(DAY_STEP)))
        .values("begin")
        .annotate(
            covered=Sum("seconds"),
            accepted_sum=Sum("accepted"),
            failed_sum=Sum("failed"),
            p50=Avg("hour_p50"),
            p95=Avg("hour_p95"),
        )
        .order_by("begin")
        .values_list("begin", "covered", "accepted_sum", "failed_sum", "p50", "p95")
    )
    return [Bucket(*row) for row in rows]


def _begin_of(step: timedelta) -> Any:
    zero = Value(datetime(2001, 1, 1, tzinfo=UTC))
    return Func(
        Value(step),
        F("at"),
        zero,
        function="date_bin",
        output_field=DateTimeField(),
    )


def latest_capacity() -> tuple[datetime | None, Capacity | None]:
    """Return the time and the value of the latest capacity, `None` if missing or invalid."""
    snapshot = CapacitySnapshot.objects.filter(pk=CapacitySnapshot.SINGLETON).first()
    if snapshot is None:
        return None, None
    try:
        return snapshot.at, Capacity.model_validate(snapshot.document)
    except ValidationError:
        return snapshot.at, None  # Another release stored it. The next sample replaces it.
