"""Functions on the overview of the admin."""

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
    failed = rows.filter(phase=FunctionPhase.FAILED)
    on_the_way = rows.filter(phase__in=TRANSIENT_PHASES)
    return OverviewSection(
        counted=(CountedRows("Functions", rows, FunctionPhase.values, url),),
        failing=(
            FailingRows("function", failed, url, PAGE, name="request_id"),
            FailingRows(
                "function", on_the_way, url, PAGE, name="request_id", order="pk", waits=True
            ),
        ),
    )


register_overview_section(overview_section)
