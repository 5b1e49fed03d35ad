"""Query parameters of the audit log."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from django.db.models import QuerySet
from pydantic import BeforeValidator, Field

from gpuplatform import clock
from gpuplatform.api.query import PageQuery, Query, Several, Word
from gpuplatform.audit.models import AuditEntry, Outcome


def _moment(text: object) -> object:
    if not isinstance(text, str):
        return text
    try:
        return clock.parse_rfc3339(text)
    except (ValueError, OverflowError) as error:
        msg = "Must be a time with a time zone, such as 2026-12-01T00:00:00Z."
        raise ValueError(msg) from error


Moment = Annotated[datetime, BeforeValidator(_moment)]
Name = Annotated[str, Field(min_length=1, max_length=300)]


class EntriesFilter(Query):
    """The filters of the audit log."""

    tenant: Several[Word] = Field(default=(), description="Return only entries of these tenants.")
    actor: Several[Name] = Field(
        default=(),
        description="Return only entries of these actors, such as `token 'ci'`.",
        examples=[["admin user 'ada'"]],
    )
    kind: Several[Word] = Field(
        default=(),
        description="Return only entries about objects of these kinds.",
        examples=[["GPUUnit"]],
    )
    object: Several[Name] = Field(
        default=(),
        description="Return only entries about objects with these names.",
        examples=[["trainer"]],
    )
    verb: Several[Word] = Field(
        default=(), description="Return only entries with these verbs.", examples=[["create"]]
    )
    outcome: Several[Outcome] = Field(
        default=(), description="Return only entries with these outcomes."
    )
    since: Moment | None = Field(
        default=None,
        description="Return only entries from this time on.",
        examples=["2026-12-01T00:00:00Z"],
    )
    until: Moment | None = Field(
        default=None,
        description="Return only entries before this time.",
        examples=["2026-12-02T00:00:00Z"],
    )

    def applied_to(self, rows: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        """Return the entries that match all filters."""
        selected = {
            "tenant__in": self.tenant,
            "actor__in": self.actor,
            "object_kind__in": self.kind,
            "object_name__in": self.object,
            "verb__in": self.verb,
            "outcome__in": self.outcome,
        }
        rows = rows.filter(**{lookup: values for lookup, values in selected.items() if values})
        if self.since is not None:
            rows = rows.filter(at__gte=self.since)
        return rows if self.until is None else rows.filter(at__lt=self.until)


class EntriesQuery(EntriesFilter, PageQuery):
    """The filters of a page of the audit log."""


class ExportFormat(StrEnum):
    """The format of an export."""

    CSV = "csv"
    JSONL = "jsonl"


class ExportQuery(EntriesFilter):
    """The filters and the format of an export."""

    format: ExportFormat = Field(default=ExportFormat.JSONL, description="Format of the entries.")
