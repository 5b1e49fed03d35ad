"""Reads the usage ledger."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from django.contrib.postgres.aggregates import BoolOr
from django.db.models import Max, Q, QuerySet, Sum
from django.db.models.functions import TruncDay

from gpuplatform import clock
from gpuplatform.errors import FieldError
from gpuplatform.formats.model import invalid_spec
from gpuplatform.usage.models import SEAL_HOURS, UsageRecord

EXPORT_ROWS: Final = 2000
"""Number of records that an export reads with one statement."""


class GroupBy(StrEnum):
    """The dimensions by which usage is summed."""

    TENANT = "tenant"
    SPEC = "spec"
    UNIT = "unit"
    DAY = "day"


_COLUMNS: Final[Mapping[GroupBy, Sequence[str]]] = {
    GroupBy.TENANT: ("tenant__name",),
    GroupBy.SPEC: ("spec_name",),
    GroupBy.UNIT: ("subject", "tenant__name"),
    GroupBy.DAY: ("day",),
}


@dataclass(frozen=True, slots=True)
class Period:
    """Whole hours from `begin` to `end`, and the tenant and the GPU specs that are included."""

    begin: datetime
    end: datetime
    tenant: str | None = None
    """Name of the tenant, or `None` for all tenants."""
    spec_names: Sequence[str] = ()
    """Names of GPU specs, or none for all of them."""


def records_in(period: Period) -> QuerySet[UsageRecord]:
    """Return the records and corrections of a period."""
    rows = UsageRecord.objects.filter(hour__gte=period.begin, hour__lt=period.end)
    rows = _of_tenants(rows, period)
    return rows.filter(spec_name__in=period.spec_names) if period.spec_names else rows


def _of_tenants(rows: QuerySet[UsageRecord], period: Period) -> QuerySet[UsageRecord]:
    return rows if period.tenant is None else rows.filter(tenant__name=period.tenant)


def usage_sums(period: Period, group_by: Collection[GroupBy]) -> QuerySet[UsageRecord, Any]:
    """Return the sums of a period by kind and by each dimension of `group_by`, in order."""
    rows = records_in(period)
    if GroupBy.DAY in group_by:
        rows = rows.annotate(day=TruncDay("hour"))
    order = [one for one in GroupBy if one in group_by]
    keys = list(dict.fromkeys(name for one in order for name in _COLUMNS[one]))
    named = {"name": Max("subject_name")} if GroupBy.UNIT in group_by else {}
    found: QuerySet[UsageRecord, Any] = (
        rows.order_by()
        .values("kind", *keys)
        .annotate(
            milliseconds=Sum("milliseconds"),
            gpu_milliseconds=Sum("gpu_milliseconds"),
            number=Sum("count"),
            estimated=BoolOr("is_estimated"),
            **named,
        )
        .order_by(*keys, "kind")
    )
    return found


def export(period: Period, after: UUID | None = None) -> Iterator[UsageRecord]:
    """Yield all records of a period in the order of their hours and ids.

    Each read is a separate statement, so that a slow reader holds no transaction open.

    Raises:
        InvalidSpec: If `after` is not the id of a record of the tenants of the period.
    """
    place = None
    if after is not None:
        known = _of_tenants(UsageRecord.objects.filter(pk=after), period)
        place = known.values_list("hour", "id").first()
        if place is None:
            message = "Is not the id of a record. Use the id of the last record that you received."
            raise invalid_spec([FieldError("cursor", message)])
    return _export(records_in(period).select_related("tenant").order_by("hour", "id"), place)


def _export(
    rows: QuerySet[UsageRecord], place: tuple[datetime, UUID] | None
) -> Iterator[UsageRecord]:
    while True:
        after = rows
        if place is not None:
            hour, last = place
            after = rows.filter(Q(hour__gt=hour) | Q(hour=hour, pk__gt=last), hour__gte=hour)
        found = list(after[:EXPORT_ROWS])
        yield from found
        if len(found) < EXPORT_ROWS:
            return
        place = found[-1].hour, found[-1].pk


def gpu_hours_by_tenant(tenants: Collection[int], days: int) -> dict[int, float]:
    """Return the GPU-hours of tenants by id in the last days, including today."""
    begin = clock.now() - timedelta(days=days)
    rows = UsageRecord.objects.filter(tenant__in=tenants, hour__gte=begin).order_by()
    sums = rows.values_list("tenant").annotate(Sum("gpu_milliseconds"))
    return {tenant: total / 3_600_000 for tenant, total in sums}


def overdue_seconds() -> float:
    """Return the time in seconds since the oldest unsealed record should have been sealed."""
    unsealed = UsageRecord.objects.filter(sealed_at__isnull=True)
    oldest = unsealed.order_by("hour").values_list("hour", flat=True).first()
    if oldest is None:
        return 0.0
    due_at = oldest + timedelta(hours=1 + SEAL_HOURS)
    return max((clock.now() - due_at).total_seconds(), 0.0)
