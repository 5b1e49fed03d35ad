"""The views of usage, for a tenant and for operators."""

from typing import Any, Final

from django.http import StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform.api.endpoint import Endpoint
from gpuplatform.api.pagination import Page, decode_cursor
from gpuplatform.api.views import ApiView
from gpuplatform.audit.services.entries import secret_read
from gpuplatform.tenancy.callers import caller_of
from gpuplatform.usage.api.serializers import UsageReply
from gpuplatform.usage.exports import CSV_TYPE, JSONL_TYPE, USAGE_KIND, csv_lines, jsonl_lines
from gpuplatform.usage.requests import (
    OperatorRecordsQuery,
    OperatorUsageQuery,
    RecordsFormat,
    RecordsQuery,
    UsageQuery,
)
from gpuplatform.usage.selectors import export, usage_sums

_TAG: Final = "Usage"
_RECORDS: Final[dict[str, Any]] = {
    "tag": _TAG,
    "replies": {},
    "text": "The hourly records.",
    "text_types": ("text/csv", "application/jsonl"),
}


class Usage(ApiView):
    """The view that sums the usage of the caller's tenant."""

    @Endpoint(
        id="getUsage",
        summary="Sum the usage of the tenant",
        tag=_TAG,
        query=UsageQuery,
        replies={200: UsageReply},
    )
    def get(self, request: Request, *, query: UsageQuery) -> Response:
        """Return one page of sums."""
        return _sums(query, caller_of(request).tenant.name)


class OperatorUsage(ApiView):
    """The view that sums the usage of all tenants."""

    @Endpoint(
        id="getOperatorUsage",
        summary="Sum the usage of all tenants",
        tag=_TAG,
        query=OperatorUsageQuery,
        replies={200: UsageReply},
    )
    def get(self, request: Request, *, query: OperatorUsageQuery) -> Response:
        """Return one page of sums."""
        return _sums(query, query.tenant)


class UsageRecords(ApiView):
    """The view that exports the usage records of the caller's tenant."""

    @Endpoint(
        id="exportUsageRecords",
        summary="Export the hourly usage records of the tenant",
        query=RecordsQuery,
        **_RECORDS,
    )
    def get(self, request: Request, *, query: RecordsQuery) -> StreamingHttpResponse:
        """Return all records."""
        return _records(query, caller_of(request).tenant.name)


class OperatorUsageRecords(ApiView):
    """The view that exports the usage records of all tenants."""

    @Endpoint(
        id="exportOperatorUsageRecords",
        summary="Export the hourly usage records of all tenants",
        query=OperatorRecordsQuery,
        **_RECORDS,
    )
    def get(self, request: Request, *, query: OperatorRecordsQuery) -> StreamingHttpResponse:
        """Return all records."""
        return _records(query, query.tenant)


def _sums(query: UsageQuery, tenant: str | None) -> Response:
    begin = 0 if query.cursor is None else decode_cursor(query.cursor)
    rows = list(usage_sums(query.period(tenant), query.group_by)[begin : begin + query.limit + 1])
    shown = [UsageReply.of(row) for row in rows[: query.limit]]
    ends = range(begin + 1, begin + 1 + len(shown))
    return Response(Page(shown, ends, has_more=len(rows) > query.limit))


def _records(query: RecordsQuery, tenant: str | None) -> StreamingHttpResponse:
    rows = export(query.period(tenant), query.cursor)
    secret_read("export", USAGE_KIND, tenant=tenant or "")
    if query.format == RecordsFormat.CSV:
        return StreamingHttpResponse(csv_lines(rows), content_type=CSV_TYPE)
    return StreamingHttpResponse(jsonl_lines(rows), content_type=JSONL_TYPE)
