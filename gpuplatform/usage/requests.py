"""Query parameters of the usage: of the API, and of its page in the admin."""

from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Annotated, Final
from uuid import UUID

from pydantic import BeforeValidator, Field

from gpuplatform import clock
from gpuplatform.api.query import PageQuery, Query, Several, Word
from gpuplatform.errors import FieldError
from gpuplatform.formats.model import invalid_spec
from gpuplatform.usage.selectors import GroupBy, Period

MAX_PERIOD: Final = timedelta(days=366)
_HOUR: Final = timedelta(hours=1)
_YEARS: Final = range(2000, 3000)
"""The years of a period. At the ends of the calendar, the sum of a time and a duration fails."""


def _hour(text: object) -> object:
    if not isinstance(text, str):
        return text
    try:
        if len(text) == len("2026-12-01"):
            found = datetime.combine(date.fromisoformat(text), time(), UTC)
        else:
            found = clock.parse_rfc3339(text)
    except (ValueError, OverflowError):
        found = None
    if found is None or found != found.replace(minute=0, second=0, microsecond=0):
        msg = "Must be a day or a whole hour with a time zone."
        raise ValueError(msg)
    if found.year not in _YEARS:
        msg = f"Must be in the years {_YEARS.start} to {_YEARS.stop - 1}."
        raise ValueError(msg)
    return found


Hour = Annotated[datetime, BeforeValidator(_hour)]


class PeriodQuery(Query):
    """The period and the GPU spec of the usage."""

    begin: Hour | None = Field(
        default=None,
        alias="from",
        description="Start: a day or an hour. Default: start of the month.",
        examples=["2026-12-01T00:00:00Z"],
    )
    end: Hour | None = Field(
        default=None,
        alias="to",
        description="End, excluded. Default: end of this hour.",
        examples=["2026-12-02T00:00:00Z"],
    )
    spec_name: Several[Word] = Field(
        default=(), alias="specName", description="Return only resources of these GPU specs."
    )

    def period(self, tenant: str | None) -> Period:
        """Return the period, for a tenant or for all tenants.

        Raises:
            InvalidSpec: If the period is empty or too long.
        """
        end = self.end or clock.now().replace(minute=0, second=0, microsecond=0) + _HOUR
        begin = self.begin or (end - _HOUR).replace(day=1, hour=0)
        if begin >= end:
            raise invalid_spec([FieldError("from", "Must be before `to`.")])
        if end - begin > MAX_PERIOD:
            raise invalid_spec([FieldError("from", "Must be at most 366 days before `to`.")])
        return Period(begin, end, tenant, self.spec_name)


class UsageQuery(PeriodQuery, PageQuery):
    """The period and the dimensions of the sums."""

    group_by: Several[GroupBy] = Field(
        default=(), alias="groupBy", description="Dimensions, besides `kind`."
    )


class OperatorUsageQuery(UsageQuery):
    """As `UsageQuery`, for all tenants or for one."""

    tenant: Word | None = Field(default=None, description="Return only rows of this tenant.")


class RecordsFormat(StrEnum):
    """The format of an export."""

    CSV = "csv"
    JSONL = "jsonl"


class RecordsQuery(PeriodQuery):
    """The period and the format of an export."""

    format: RecordsFormat = Field(default=RecordsFormat.JSONL, description="Format of the rows.")
    cursor: UUID | None = Field(default=None, description="ID of the last received record.")


class OperatorRecordsQuery(RecordsQuery):
    """As `RecordsQuery`, for all tenants or for one."""

    tenant: Word | None = Field(default=None, description="Return only rows of this tenant.")
