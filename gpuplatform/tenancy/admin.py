"""Tenants in the admin."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.actions.action import Action, ActionRequest, ActionResult, Values
from gpuplatform.adminkit.actions.forms import DeclaredForm
from gpuplatform.adminkit.actions.model_admin import ActionAdmin
from gpuplatform.adminkit.detail.panels import Detail, Fact, RelatedRow
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.counts import capped, capped_counts
from gpuplatform.adminkit.display.text import gpu_value
from gpuplatform.adminkit.lists.filters import PhaseTabs, TenantFilter
from gpuplatform.adminkit.lists.model_admin import ObjectAdmin, ReadOnlyAdmin, Usage
from gpuplatform.tenancy import admin_members, admin_people, admin_tokens
from gpuplatform.tenancy.admin_limits import LIMITS, limit_facts
from gpuplatform.tenancy.admin_members import members_table
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.requests import PriorityLimit
from gpuplatform.tenancy.services import tenant_limit_priority

FAILED = "Failed"
__all__ = ["admin_members", "admin_people", "admin_tokens"]


class PriorityForm(DeclaredForm):
    """The form that changes the priority limit of tenants."""

    declaration = PriorityLimit
    field_names = ("maxPriority",)
    required_names = frozenset(field_names)


def _limit(request: ActionRequest) -> ActionResult:
    most = request.parse(PriorityLimit).max_priority
    if tenant_limit_priority(tenant=request.row, most=most):
        changed = {"maxPriority": request.row.max_priority}, {"maxPriority": most}
        return ActionResult(f"Changed to {most}.", changed=changed)
    return ActionResult(f"It is {most} already.", is_replay=True)


def _limit_consequence(rows: Sequence[Tenant], values: Values) -> str:
    names = f"'{rows[0]}'" if len(rows) == 1 else f"these {len(rows)} tenants"
    return (
        f"Requests of {names} can have a priority of at most {values['maxPriority']}. The priority"
        " of requests that exist does not change."
    )


LIMIT_PRIORITY: Final = Action(
    name="limit",
    label="Limit priority",
    consequence=_limit_consequence,
    service=_limit,
    form=PriorityForm,
    initial=lambda tenant: {"maxPriority": tenant.max_priority},
    is_direct=True,
)


@admin.register(Tenant)
class TenantAdmin(ActionAdmin):
    """The tenants and their usage."""

    row_actions: ClassVar[tuple[Action, ...]] = (LIMITS, LIMIT_PRIORITY)
    search_order = 6
    line_fields: ClassVar[tuple[str, ...]] = ("name", "namespace", "created_at")
    list_display: tuple[str, ...] = (
        "name",
        "namespace",
        "units",
        "failed",
        "gpus",
        "max_priority",
        "since",
    )
    list_display_links = ("name",)
    search_fields: ClassVar[tuple[str, ...]] = ("name", "namespace")
    search_help_text = "name or namespace"

    @admin.display(description="GPU units")
    def units(self, row: Any) -> str:
        """Return the number of GPU units of the tenant."""
        return str(row.usage.units) if row.usage else ""

    @admin.display(description="Failed")
    def failed(self, row: Any) -> SafeString:
        """Return the number of failed GPU units of the tenant."""
        if not row.usage or not row.usage.failed:
            return SafeString("0" if row.usage else "")
        return shape_badge(Shape.FAILED, str(row.usage.failed))

    @admin.display(description="GPUs")
    def gpus(self, row: Any) -> str:
        """Return the number of GPUs that the units of the tenant hold."""
        return _gpus(row.usage) if row.usage else ""

    @admin.display(description="Since")
    def since(self, row: Tenant) -> SafeString:
        """Return the age of the tenant."""
        return age_html(row.created_at)

    @override
    def annotate_rows(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        usage = _usage(request, [row.pk for row in rows])
        for row in rows:
            row.usage = usage[row.pk]

    @override
    def line(self, row: Tenant) -> RelatedRow:
        return RelatedRow(
            badge=shape_badge(Shape.READY, "Active"),
            name=row.name,
            url=reverse("admin:tenancy_tenant_change", args=[row.pk]),
            text=f"namespace {row.namespace}",
            since=age_html(row.created_at),
        )

    @override
    def detail(self, row: Tenant) -> Detail:
        return Detail(
            title=row.name,
            badge=shape_badge(Shape.READY, "Active"),
            since=age_html(row.created_at),
            facts=[
                Fact("Namespace", row.namespace),
                Fact("Largest priority", str(row.max_priority)),
                Fact.time("Created", row.created_at),
            ],
        )

    @override
    def page_context(self, request: HttpRequest, row: Tenant) -> dict[str, Any]:
        context = super().page_context(request, row)
        detail: Detail = context["detail"]
        usage = _usage(request, [row.pk])[row.pk]
        held = [Fact("GPUs held", _gpus(usage))] if usage else []
        facts = [
            *detail.facts,
            *held,
            *_facts(request, row),
            *limit_facts(row),
            *_lists(request, row),
        ]
        related = [*detail.related, *members_table(request, row)]
        return {**context, "detail": replace(detail, facts=facts, related=related)}


def _gpus(usage: Usage) -> str:
    """Return the numbers of GPUs by resource; the default resource is not named."""
    held = {resource: number for resource, number in usage.gpus.items() if number}
    parts = [gpu_value(number, resource) for resource, number in sorted(held.items())]
    return " · ".join(parts) or "0"


def _usage(request: HttpRequest, tenants: Collection[int]) -> dict[int, Usage | None]:
    """Return the usage of each tenant by id, `None` if the admin user may not view units."""
    found: dict[int, Usage | None] = dict.fromkeys(tenants)
    for page in admin.site._registry.values():  # noqa: SLF001 - Django has no public accessor
        if isinstance(page, ObjectAdmin) and page.has_view_permission(request):
            found.update(page.usage(tenants))
    return found


def _facts(request: HttpRequest, tenant: Tenant) -> Iterator[Fact]:
    """Yield the facts that other pages add, if the admin user may view these pages."""
    for page in admin.site._registry.values():  # noqa: SLF001 - as above
        if isinstance(page, ReadOnlyAdmin) and page.has_view_permission(request):
            yield from page.tenant_facts(tenant)


def _lists(request: HttpRequest, tenant: Tenant) -> Iterator[Fact]:
    """Yield the numbers of all rows and of failed rows of a tenant in each list, as links."""
    pages = [
        page
        for page in admin.site._registry.values()  # noqa: SLF001 - as above
        if TenantFilter in page.list_filter and page.has_view_permission(request)
    ]
    sets = []
    for page in pages:
        rows = page.get_queryset(request).filter(tenant=tenant)
        live = rows.filter(deleted_at=None) if hasattr(page.model, "deleted_at") else rows
        tabs = _tabs(page)
        sets += [live, live.filter(**{tabs.field: FAILED}) if tabs else live.none()]
    counts = capped_counts(sets)
    for page, number, failed in zip(pages, counts[::2], counts[1::2], strict=True):
        name = str(page.opts.verbose_name_plural)
        listed = reverse(f"admin:{page.opts.app_label}_{page.opts.model_name}_changelist")
        of_tenant = {str(TenantFilter.parameter_name): tenant.name}
        value = _link(capped(number), listed, of_tenant)
        tabs = _tabs(page)
        if failed and tabs:
            failed_query = {**of_tenant, str(tabs.parameter_name): FAILED}
            only = _link(f"{capped(failed)} failed", listed, failed_query)
            value = format_html("{} ({})", value, only)
        yield Fact(name[:1].upper() + name[1:], value)


def _tabs(page: Any) -> type[PhaseTabs] | None:
    """Return the phase tabs of a list, or `None` if it has none."""
    kinds = (one for one in page.list_filter if isinstance(one, type))
    return next((one for one in kinds if issubclass(one, PhaseTabs)), None)


def _link(text: str, listed: str, query: dict[str, str]) -> SafeString:
    return format_html('<a href="{}?{}">{}</a>', listed, urlencode(query), text)
