"""The views of the audit log, for operators."""

from typing import Final

from django.http import StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform.api.endpoint import Endpoint
from gpuplatform.api.pagination import mapped, paginate
from gpuplatform.api.views import ApiView
from gpuplatform.audit.api.serializers import AuditEntryReply
from gpuplatform.audit.exports import CSV_TYPE, JSONL_TYPE, csv_lines, jsonl_lines
from gpuplatform.audit.models import AuditEntry
from gpuplatform.audit.requests import EntriesQuery, ExportFormat, ExportQuery
from gpuplatform.audit.selectors import export
from gpuplatform.audit.services.entries import secret_read
from gpuplatform.audit.services.seals import ENTRY_KIND

_TAG: Final = "Audit"


class AuditLog(ApiView):
    """The view that lists the audit log."""

    @Endpoint(
        id="listAuditEntries",
        summary="List the audit log, newest first",
        tag=_TAG,
        query=EntriesQuery,
        replies={200: AuditEntryReply},
    )
    def get(self, request: Request, *, query: EntriesQuery) -> Response:
        """Return one page of entries."""
        page = paginate(query.applied_to(AuditEntry.objects.all()), query)
        return Response(mapped(page, [AuditEntryReply.of(row) for row in page.rows]))


class AuditEntries(ApiView):
    """The view that exports the audit log."""

    @Endpoint(
        id="exportAuditEntries",
        summary="Export the audit log, oldest first",
        tag=_TAG,
        query=ExportQuery,
        replies={},
        text="The entries.",
        text_types=("text/csv", "application/jsonl"),
    )
    def get(self, request: Request, *, query: ExportQuery) -> StreamingHttpResponse:
        """Return all entries. The export is recorded in the audit log, too."""
        secret_read("export", ENTRY_KIND, tenant=",".join(query.tenant))
        rows = export(query.applied_to(AuditEntry.objects.all()))
        if query.format == ExportFormat.CSV:
            return StreamingHttpResponse(csv_lines(rows), content_type=CSV_TYPE)
        return StreamingHttpResponse(jsonl_lines(rows), content_type=JSONL_TYPE)
