"""Functions on the overview of the admin."""

from dataclasses import replace

from django.http import HttpRequest
from django.urls import reverse

from gpuplatform.adminkit.overview.failing import FailingRows
from gpuplatform.adminkit.overview.sections import (
    CountedRows,
    OverviewSection,
    register_overview_section,
)
from serverless.admin.function_detail import PAGE
from serverless.admin.functions import TRANSIENT_PHASES
from serverless.models import Function
from serverless.phases import FunctionPhase

_LIST = "admin:serverless_function_changelist"


def overview_section(request: HttpRequest) -> OverviewSection:
    """Return the number of functions by phase, failed functions and slow ones."""
    if not request.user.has_perm("serverless.view_function"):
        return OverviewSection()
    rows, url = Function.objects.filter(deleted_at__isnull=True), reverse(_LIST)
    failed = FailingRows(
        "function",
        rows.filter(phase=FunctionPhase.FAILED),
        url,
        PAGE,
        cause="cause",
        name="request_id",
    )
    transient = rows.filter(phase__in=TRANSIENT_PHASES)
    waiting = replace(failed, rows=transient, order="pk", waits=True)
    return OverviewSection(
        counted=(CountedRows("Functions", rows, FunctionPhase.values, url),),
        failing=(failed, waiting),
    )


register_overview_section(overview_section)
