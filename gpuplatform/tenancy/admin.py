"""Tenants in the admin."""

from collections.abc import Iterator
from urllib.parse import urlencode

from django.contrib import admin
from django.urls import reverse
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.age import age_html
from gpuplatform.adminkit.badges import Shape, shape_badge
from gpuplatform.adminkit.detail import Detail, Fact, RelatedRow
from gpuplatform.adminkit.filters import TenantFilter
from gpuplatform.adminkit.readonly import ReadOnlyAdmin
from gpuplatform.tenancy import admin_people, admin_tokens
from gpuplatform.tenancy.models import Tenant

__all__ = ["admin_people", "admin_tokens"]


@admin.register(Tenant)
class TenantAdmin(ReadOnlyAdmin):
    """Who owns what."""

    found_at = 6
    list_display = ("name", "namespace", "since")
    search_fields = ("name", "namespace")
    search_help_text = "name or namespace"

    @admin.display(description="Since")
    def since(self, row: Tenant) -> SafeString:
        """Return the tenant's age."""
        return age_html(row.created_at)

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
                Fact.time("Made", row.created_at),
                *self._lists(row),
            ],
        )

    def _lists(self, row: Tenant) -> Iterator[Fact]:
        """Yield a link to each list that can be narrowed down to a tenant."""
        for page in self.admin_site._registry.values():  # noqa: SLF001 - there is no other way
            if TenantFilter in page.list_filter:
                listed = f"admin:{page.opts.app_label}_{page.opts.model_name}_changelist"
                name = str(page.opts.verbose_name_plural)
                query = urlencode({str(TenantFilter.parameter_name): row.name})
                yield Fact(name[:1].upper() + name[1:], "show", f"{reverse(listed)}?{query}")
