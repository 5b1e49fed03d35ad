"""Tenants in the admin."""

from django.contrib import admin
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.age import age_html
from gpuplatform.adminkit.badges import Shape, shape_badge
from gpuplatform.adminkit.detail import Detail, Fact
from gpuplatform.adminkit.readonly import ReadOnlyAdmin
from gpuplatform.tenancy.models import Tenant


@admin.register(Tenant)
class TenantAdmin(ReadOnlyAdmin):
    """Who owns what."""

    list_display = ("name", "namespace", "since")
    search_fields = ("name", "namespace")
    search_help_text = "name or namespace"

    @admin.display(description="Since")
    def since(self, row: Tenant) -> SafeString:
        """Return the tenant's age."""
        return age_html(row.created_at)

    @override
    def detail(self, row: Tenant) -> Detail:
        return Detail(
            title=row.name,
            badge=shape_badge(Shape.READY, "Active"),
            since=age_html(row.created_at),
            facts=[Fact("Namespace", row.namespace), Fact.time("Made", row.created_at)],
        )
