"""Functions on the first page of the admin."""

from datetime import timedelta
from typing import Final

from django.db.models import Q
from django.db.models.functions import Now
from django.http import HttpRequest
from django.urls import reverse

from gpuplatform.adminkit.dashboard import CountedRows, Shown, register_dashboard_part
from gpuplatform.adminkit.failing import FailingRows
from serverless.admin.functions import ON_THE_WAY, PAGE, WELL
from serverless.models import Function
from serverless.phases import FunctionPhase, FunctionReason

_LIST = "admin:serverless_function_changelist"
SOON: Final = timedelta(minutes=1)
"""Stock that is on its way is there by then; what has none for longer needs somebody to seed."""


def on_dashboard(request: HttpRequest) -> Shown:
    """Return the functions by phase, and those that fail, have no capacity or wait for long."""
    if not request.user.has_perm("serverless.view_function"):
        return Shown()
    rows, url = Function.objects.filter(deleted_at__isnull=True), reverse(_LIST)
    starved = Q(reason=FunctionReason.NO_CAPACITY, phase_since__lt=Now() - SOON)
    failed = rows.filter(Q(phase=FunctionPhase.FAILED) | starved)
    on_the_way = rows.filter(phase__in=ON_THE_WAY).exclude(reason=FunctionReason.NO_CAPACITY)
    return Shown(
        counted=(CountedRows("Functions", rows, FunctionPhase.values, WELL, "ready", url),),
        failing=(
            FailingRows("function", failed, url, PAGE, name="request_id"),
            FailingRows(
                "function", on_the_way, url, PAGE, name="request_id", order="pk", waits=True
            ),
        ),
    )


register_dashboard_part(on_dashboard)
