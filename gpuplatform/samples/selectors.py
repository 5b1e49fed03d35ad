"""Queries of samples and runs."""

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
    """The samples of a minute, or of a quarter of an hour, added up."""

    at: datetime
    """When it begins."""
    seconds: float = 0.0
    """Seconds that the samples cover; 0: no sample."""
    accepted: int = 0
    failed: int = 0
    p50: float | None = None
    p95: float | None = None

    @property
    def rate(self) -> float | None:
        """Accepted operations per minute; None without a sample."""
        return self.accepted / self.seconds * 60 if self.seconds else None

    def plus(self, other: "Bucket") -> "Bucket":
        """Return the sum of both, with the begin of this one and the later quantiles."""
        return Bucket(
            self.at,
            self.seconds + other.seconds,
            self.accepted + other.accepted,
            self.failed + other.failed,
            self.p50 if other.p50 is None else other.p50,
            self.p95 if other.p95 is None else other.p95,
        )


def runs_of(schedules: Sequence[str]) -> Mapping[str, Sequence[TaskRun]]:
    """Return the newest runs of each schedule, newest first, with one query."""
    newest_first = Window(RowNumber(), partition_by="schedule", order_by="-started_at")
    ranked = TaskRun.objects.filter(schedule__in=schedules).annotate(rank=newest_first)
    runs: dict[str, list[TaskRun]] = {}
    for run in ranked.filter(rank__lte=KEPT_RUNS).order_by("schedule", "rank"):
        runs.setdefault(run.schedule, []).append(run)
    return runs


def latest_sample() -> PlatformSample | None:
    """Return the newest sample."""
    return PlatformSample.objects.order_by("-at").first()


def buckets_of_a_day() -> list[Bucket]:
    """Return the last day, oldest first, in quarters of an hour, and the last hour in minutes."""
    recent = When(at__gt=Now() - HOUR, then=_begin_of(HOUR_STEP))
    rows = (
        PlatformSample.objects.filter(at__gt=Now() - DAY)
        .order_by()
        .annotate(begin=Case(recent, default=_begin_of(DAY_STEP)))
        .values("begin")
        .annotate(
            covered=Sum("seconds"),
            jobs=Sum("accepted"),
            faults=Sum("failed"),
            p50=Avg("hour_p50"),
            p95=Avg("hour_p95"),
        )
        .order_by("begin")
        .values_list("begin", "covered", "jobs", "faults", "p50", "p95")
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
    """Return the latest capacity and its time; None without one, or if it is unreadable."""
    snapshot = CapacitySnapshot.objects.filter(pk=CapacitySnapshot.SINGLETON).first()
    if snapshot is None:
        return None, None
    try:
        return snapshot.at, Capacity.model_validate(snapshot.document)
    except ValidationError:
        return snapshot.at, None  # Stored by another release; the next sample replaces it.
