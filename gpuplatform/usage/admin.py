"""The page of the usage: sums of a period, a chart by day, and the records as CSV."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
    QueryDict,
    StreamingHttpResponse,
)
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.detail.panels import Fact
from gpuplatform.adminkit.display.charts import Column, columns
from gpuplatform.adminkit.lists.model_admin import ReadOnlyAdmin
from gpuplatform.audit.services.entries import secret_read
from gpuplatform.errors import InvalidSpec
from gpuplatform.tenancy.models import Tenant
from gpuplatform.usage.exports import CSV_TYPE, USAGE_KIND, csv_lines
from gpuplatform.usage.models import UsageRecord
from gpuplatform.usage.requests import OperatorRecordsQuery, OperatorUsageQuery
from gpuplatform.usage.selectors import (
    GroupBy,
    Period,
    export,
    gpu_hours_by_tenant,
    usage_sums,
)

MAX_ROWS: Final = 200
"""Maximum number of rows of the table."""

RECENT_DAYS: Final = 30

_TITLES: Final[Mapping[GroupBy, str]] = {
    GroupBy.TENANT: "Tenant",
    GroupBy.SPEC: "GPU spec",
    GroupBy.UNIT: "Unit or function",
    GroupBy.DAY: "Day",
}
_MS_PER_HOUR: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Choice:
    """An option of a selection."""

    value: str
    text: str
    is_selected: bool


@dataclass(frozen=True, slots=True)
class Chart:
    """The chart of the GPU-hours by day."""

    total: str
    top: str
    begin: str
    end: str
    drawing: SafeString


@admin.register(UsageRecord)
class UsageAdmin(ReadOnlyAdmin):
    """The usage of all tenants."""

    @override
    def get_urls(self) -> list[Any]:
        exported = path(
            "records.csv", self.admin_site.admin_view(self.records), name=self.url_name("records")
        )
        return [exported, *super().get_urls()]

    @override
    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Return the page with the sums of the period and the dimensions of the query."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        query, period, problems = _parsed(request.GET)
        group_by = query.group_by or (GroupBy.TENANT,)
        rows = list(usage_sums(period, group_by)[: MAX_ROWS + 1])
        context = {
            **self.admin_site.each_context(request),
            "title": "Usage",
            "opts": self.opts,
            "problems": problems,
            "begin": f"{period.begin:%Y-%m-%d}",
            "end": f"{period.end + timedelta(hours=23):%Y-%m-%d}",
            "groups": [Choice(one, title, one in group_by) for one, title in _TITLES.items()],
            "tenants": _choices(Tenant.objects.values_list("name", flat=True), query.tenant),
            "spec": ",".join(query.spec_name),
            "headings": [title for one, title in _TITLES.items() if one in group_by],
            "rows": [_cells(row, group_by) for row in rows[:MAX_ROWS]],
            "is_cut": len(rows) > MAX_ROWS,
            "max_rows": MAX_ROWS,
            "chart": _chart(period),
            "csv": f"{reverse('admin:usage_usagerecord_records')}?{_filter(request.GET)}",
        }
        return TemplateResponse(request, "admin/usage.html", context)

    def records(self, request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
        """Return the records of the current filter as CSV."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        query, period, problems = _parsed(request.GET)
        if problems:
            url = reverse("admin:usage_usagerecord_changelist")
            return HttpResponseRedirect(f"{url}?{_filter(request.GET)}")
        name = f"usage-{period.begin:%Y-%m-%d}-{period.end:%Y-%m-%d}.csv"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        lines = csv_lines(export(period))
        secret_read("export", USAGE_KIND, tenant=query.tenant or "")
        return StreamingHttpResponse(lines, content_type=CSV_TYPE, headers=headers)

    @override
    def tenant_facts(self, tenant: Tenant) -> Sequence[Fact]:
        """Return the GPU-hours of the last 30 days, with a link to the page of the usage."""
        hours = gpu_hours_by_tenant([tenant.pk], RECENT_DAYS).get(tenant.pk, 0.0)
        listed = reverse("admin:usage_usagerecord_changelist")
        query = urlencode({"tenant": tenant.name, "groupBy": GroupBy.DAY})
        text = f"{hours:,.2f} GPU-hours in the last {RECENT_DAYS} days"
        return [Fact("Usage", text, f"{listed}?{query}")]

    @override
    def page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Raise `Http404`: a record has no page."""
        raise Http404


def _filter(given: QueryDict) -> str:
    """Return the parameters that select records."""
    names = {
        declared.alias or name for name, declared in OperatorRecordsQuery.model_fields.items()
    }
    found = given.copy()
    for name in set(found) - (names - {"format", "cursor"}):
        del found[name]
    return found.urlencode()


def _parsed(given: QueryDict) -> tuple[OperatorUsageQuery, Period, Sequence[str]]:
    """Return the query and its period, or the default values and the problems of the query."""
    filled = given.copy()
    for name in [name for name in filled if not any(filled.getlist(name))]:
        del filled[name]  # A form sends empty fields.
    try:
        query = OperatorUsageQuery.parse(filled)
        return query, query.period(query.tenant), ()
    except InvalidSpec as error:
        default = OperatorUsageQuery.parse(QueryDict())
        problems = [f"{one.field}: {one.message}" for one in error.details]
        return default, default.period(None), problems


def _choices(names: Iterable[str], selected: str | None) -> list[Choice]:
    return [Choice(name, name, name == selected) for name in names]


def _cells(row: Mapping[str, Any], group_by: Sequence[GroupBy]) -> Mapping[str, Any]:
    values = {
        GroupBy.TENANT: row.get("tenant__name"),
        GroupBy.SPEC: row.get("spec_name") or "—",
        GroupBy.UNIT: row.get("name"),
        GroupBy.DAY: f"{row['day']:%Y-%m-%d}" if "day" in row else "",
    }
    return {
        "keys": [values[one] for one in _TITLES if one in group_by],
        "kind": row["kind"],
        "gpu_hours": _hours(row["gpu_milliseconds"]),
        "hours": _hours(row["milliseconds"]),
        "count": f"{row['number']:,}" if row["number"] else "—",
        "is_estimated": row["estimated"],
    }


def _chart(period: Period) -> Chart:
    sums = {
        f"{row['day']:%Y-%m-%d}": row["gpu_milliseconds"]
        for row in usage_sums(period, [GroupBy.DAY])
        if row["kind"] == "gpu"
    }
    days = max((period.end - period.begin + timedelta(hours=23)).days, 1)
    shown = [f"{period.begin + timedelta(days=day):%Y-%m-%d}" for day in range(days)]
    values = [sums.get(day, 0) for day in shown]
    total, top = _hours(sum(values)), _hours(max(values))
    label = f"GPU-hours by day: {total} in the period, at most {top} in a day."
    drawn = [
        Column(value / _MS_PER_HOUR, f"{day}: {_hours(value)} GPU-hours")
        for day, value in zip(shown, values, strict=True)
    ]
    return Chart(total, top if any(values) else "", shown[0], shown[-1], columns(drawn, label))


def _hours(milliseconds: float) -> str:
    return f"{milliseconds / _MS_PER_HOUR:,.2f}"
