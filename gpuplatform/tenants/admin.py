"""The pages of tenants in the admin, with the actions on tenants.

They replace the pages of `gpuplatform.tenancy`, which has no operations.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from django.conf import settings
from django.contrib import admin
from typing_extensions import override

from gpuplatform.adminkit.detail.panels import Detail, Fact, Panel, RelatedRow
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import Shape, phase_badge
from gpuplatform.adminkit.display.text import visible
from gpuplatform.adminkit.lists.filters import PhaseTabs
from gpuplatform.adminkit.lists.model_admin import column
from gpuplatform.operations.admin import operations_of
from gpuplatform.tenancy.admin import TenantAdmin
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.phases import TENANT_PHASES, NamespaceOrigin, TenantPhase
from gpuplatform.tenants.admin_actions import CREATE, TENANT_ACTIONS
from gpuplatform.tenants.core.objects import tenant_objects
from gpuplatform.tenants.names import TENANT_KIND


class ManagedTenantAdmin(TenantAdmin):
    """The tenants, their usage, and the actions on them."""

    row_actions = (*TenantAdmin.row_actions, *TENANT_ACTIONS)
    creation = CREATE
    object_kind = TENANT_KIND
    list_display = (
        *("state", "name", "label", "namespace", "units", "failed", "gpus"),
        *("weight", "max_priority", "since"),
    )
    list_filter = (PhaseTabs,)
    line_fields = (*TenantAdmin.line_fields, "phase")
    search_fields = ("name", "display_name", "namespace")
    search_help_text = "name, display name or namespace"

    state = column("State", lambda row: phase_badge(row.phase))
    label = column("Display name", lambda row: visible(row.display_name), empty="")

    @override
    def line(self, row: Tenant) -> RelatedRow:
        return replace(super().line(row), badge=phase_badge(row.phase))

    @override
    def detail(self, row: Tenant) -> Detail:
        detail = super().detail(row)
        return replace(
            detail,
            badge=phase_badge(row.phase),
            panel=_failure(row) or _panel(row),
            facts=[fact for fact in (*_facts(row), *detail.facts) if fact.value],
            related=[operations_of(TENANT_KIND, row.pk)],
        )


def _facts(row: Tenant) -> Iterable[Fact]:
    yield Fact("Display name", visible(row.display_name))
    yield Fact("Weight", str(row.weight))
    yield Fact("Namespace origin", NamespaceOrigin(row.namespace_origin).label)
    if row.namespace_origin != NamespaceOrigin.EXTERNAL and row.namespace_uid:
        yield Fact("Objects in the namespace", _objects(row.namespace))
    yield Fact("UID of the namespace", row.namespace_uid)
    yield Fact.time("Changed", row.updated_at)
    yield Fact.time("Deleted", row.deleted_at)


def _objects(namespace: str) -> str:
    """Return the numbers of objects that the platform manages in a namespace, by kind."""
    objects = tenant_objects(namespace, system_namespace=settings.GPUPLATFORM_SYSTEM_NAMESPACE)
    numbers = Counter(kind.kind for kind, _ in objects)
    return " · ".join(f"{kind}: {number}" for kind, number in numbers.items())


def _failure(row: Tenant) -> Panel | None:
    """Return the error of the last operation on a tenant."""
    if not row.failure_code:
        return None
    return Panel(
        shape=Shape.FAILED,
        title=f"The last operation failed: {row.failure_code}",
        text=visible(row.failure_message),
        since=age_html(row.updated_at),
        next_step="Remove the cause, then retry the operation.",
    )


def _panel(row: Tenant) -> Panel | None:
    """Return the meaning of the phase, unless the tenant is active."""
    if row.phase == TenantPhase.ACTIVE:
        return None
    phase = TenantPhase(row.phase)
    is_waiting = phase in {TenantPhase.PENDING, TenantPhase.DELETING}
    return Panel(
        shape=Shape.PROGRESS if is_waiting else Shape.OFF,
        title=str(phase.label),
        text=TENANT_PHASES[phase],
        since=age_html(row.updated_at),
    )


admin.site.unregister(Tenant)
admin.site.register(Tenant, ManagedTenantAdmin)
