"""Charts of the operations per minute and of the time from claim to ready."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.utils.safestring import SafeString

from gpuplatform.adminkit.display.age import duration
from gpuplatform.adminkit.display.charts import Column, columns, lines
from gpuplatform.adminkit.display.text import counted
from gpuplatform.samples.models import PlatformSample
from gpuplatform.samples.selectors import DAY, DAY_STEP, HOUR, HOUR_STEP, Bucket

NOTHING: Final = "—"


@dataclass(frozen=True, slots=True)
class OperationsChart:
    """The chart of the operations per minute in a period."""

    title: str
    begin: str
    rate: str
    sums: str
    top: str
    drawing: SafeString


@dataclass(frozen=True, slots=True)
class ClaimTimes:
    """The time from claim to ready in a period: median, 95th percentile and number of units."""

    title: str
    p50: str
    p95: str
    count: str


@dataclass(frozen=True, slots=True)
class Pace:
    """The charts and numbers of operations and claims."""

    operations: Sequence[OperationsChart]
    claims: Sequence[ClaimTimes]
    recent_claims: ClaimTimes | None
    """The times of the last hour or, if it has no claims, of the last 24 hours."""
    claims_top: str
    claims_drawing: SafeString
    is_known: bool


def pace(buckets: Sequence[Bucket], sample: PlatformSample | None, now: datetime) -> Pace:
    """Return the charts and numbers for the last day.

    Args:
        buckets: The samples of the last day, aggregated.
        sample: The newest sample, which contains the percentiles of claims.
        now: The end of the period.
    """
    by_hour = _places([one for one in buckets if one.at > now - HOUR], now, HOUR, HOUR_STEP)
    by_day = _places(buckets, now, DAY, DAY_STEP)
    known = [value for one in by_day for value in (one.p50, one.p95) if value is not None]
    top = duration(max(known)) if known else ""
    claims = _claims(sample) if sample else []
    return Pace(
        operations=(
            _operations_chart("Last hour", "1 h ago", by_hour),
            _operations_chart("Last 24 hours", "24 h ago", by_day),
        ),
        claims=claims,
        recent_claims=claims[0 if sample.hour_claims else 1] if sample else None,
        claims_top=top,
        claims_drawing=lines(
            [("p95", [one.p95 for one in by_day]), ("p50", [one.p50 for one in by_day])],
            f"Time from claim to ready in the last 24 hours, at most {top}."
            if top
            else "No claims in the last 24 hours.",
        ),
        is_known=bool(buckets),
    )


def _places(
    buckets: Sequence[Bucket], now: datetime, span: timedelta, step: timedelta
) -> list[Bucket]:
    """Return a bucket for each step of the period before `now`, oldest first.

    The bucket of a step without data is empty.
    """
    number = round(span / step)
    sums = [Bucket(now - span + step * place) for place in range(number)]
    for one in buckets:
        place = int((one.at - (now - span)) / step)
        if 0 <= place < number:
            sums[place] = sums[place].plus(one)
    return sums


def _operations_chart(title: str, begin: str, places: Sequence[Bucket]) -> OperationsChart:
    seconds = sum(one.seconds for one in places)
    accepted, failed = sum(one.accepted for one in places), sum(one.failed for one in places)
    rates = [one.rate for one in places]
    top = max((rate for rate in rates if rate is not None), default=0.0)
    mean = accepted / seconds * 60 if seconds else None
    return OperationsChart(
        title=title,
        begin=begin,
        rate=NOTHING if mean is None else _rate(mean),
        sums=f"{accepted:,} accepted, {failed:,} failed",
        top=_rate(top) if top else "",
        drawing=columns(
            [_column(one) for one in places],
            f"Operations per minute, {title.lower()}: {_rate(mean or 0.0)} on average, at most"
            f" {_rate(top)}; {accepted:,} accepted, {failed:,} failed.",
        ),
    )


def _column(one: Bucket) -> Column:
    at = f"{one.at:%H:%M} UTC"
    if one.rate is None:
        return Column(None, f"{at}: no data")
    bad = one.failed / one.seconds * 60
    text = f"{at}: {_rate(one.rate)} per minute, {one.failed} failed"
    return Column(max(one.rate, bad), text, bad)


def _claims(sample: PlatformSample) -> list[ClaimTimes]:
    spans = (
        ("Last hour", sample.hour_p50, sample.hour_p95, sample.hour_claims),
        ("Last 24 hours", sample.day_p50, sample.day_p95, sample.day_claims),
    )
    return [
        ClaimTimes(title, _seconds(p50), _seconds(p95), counted(count, "unit"))
        for title, p50, p95, count in spans
    ]


def _seconds(seconds: float | None) -> str:
    return NOTHING if seconds is None else duration(seconds)


def _rate(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{number:.1f}".removesuffix(".0")
