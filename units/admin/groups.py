"""The groups of units in the admin: their units, their stop, start and deletion."""

from collections.abc import Sequence
from typing import Any, Final

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.actions.action import Action, Values
from gpuplatform.adminkit.actions.mirrors import mirror_badge
from gpuplatform.adminkit.actions.model_admin import ActionAdmin
from gpuplatform.adminkit.detail.panels import Detail, Fact, Related, RelatedRow
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import phase_badge
from gpuplatform.adminkit.display.text import all_gpus_text, counted, visible
from gpuplatform.adminkit.display.urls import page_url
from gpuplatform.adminkit.lists.filters import SpecFilter, TenantFilter
from gpuplatform.adminkit.lists.model_admin import column
from gpuplatform.operations.admin import operations_of
from gpuplatform.operations.admin_actions import service_call
from gpuplatform.tenancy.selectors import tenant_of
from inventory.admin import spec_fact
from inventory.selectors import spec_row
from units.admin.detail import unit_line
from units.admin.group_panel import group_panel
from units.admin.queue import queue_facts
from units.core.groups import member_name
from units.core.names import object_name
from units.group_members import UnitGroupState, first_members, group_states
from units.models import GpuUnit, UnitGroup
from units.phases import UnitPhase, UnitReason
from units.services.group_runs import group_start, group_stop
from units.services.groups import group_request_deletion
from units.services.names import GROUP_KIND


def _state(row: Any) -> UnitGroupState:
    """Return the group that the list has set on a row, or its current state."""
    if not hasattr(row, "group_found"):
        [live] = group_states([row])
        deleted = GpuUnit.objects.filter(group_name=row.group_name, operation=row.operation_id)
        row.group_found = UnitGroupState(row, list(deleted)) if row.deleted_at else live
    found: UnitGroupState = row.group_found
    return found


def _name(row: GpuUnit) -> SafeString:
    return format_html('<a href="{}"><b>{}</b></a>', page_url(row), visible(row.group_name))


def _ready(row: GpuUnit) -> str:
    return f"{_state(row).ready} of {_state(row).size}"


def _address(row: GpuUnit) -> dict[str, Any]:
    return {"tenant": row.tenant or tenant_of(row.namespace), "name": row.group_name}


def _delete_obstacle(row: GpuUnit) -> str:
    if row.deleted_at:
        return "It is deleted."
    members = _state(row).members
    is_ending = bool(members) and all(one.deletion_requested_at for one in members)
    return "It is already being deleted." if is_ending else ""


def _delete_consequence(rows: Sequence[GpuUnit], _: Values) -> str:
    members = _members(rows)
    return (
        f"Deletes {counted(len(rows), 'group')} with {counted(len(members), 'unit')} and releases"
        f" {_gpus(members)}. The workloads are terminated and their local data is lost. This"
        " cannot be undone."
    )


def _stop_obstacle(row: GpuUnit) -> str:
    is_stopped = _state(row).phase == UnitPhase.STOPPED
    return _delete_obstacle(row) or ("It is already stopped." if is_stopped else "")


def _start_obstacle(row: GpuUnit) -> str:
    is_running = not all(one.is_suspended or one.is_ended for one in _state(row).members)
    return _delete_obstacle(row) or ("It is running. Stop it first." if is_running else "")


def _stop_consequence(rows: Sequence[GpuUnit], _: Values) -> str:
    members = _members(rows)
    running = [one for one in members if one.phase != UnitPhase.STOPPED and not one.is_ended]
    return (
        f"Stops {counted(len(rows), 'group')} with {counted(len(members), 'unit')} and releases"
        f" {_gpus(running)}. The workloads are terminated. Names and settings are kept."
    )


def _start_consequence(rows: Sequence[GpuUnit], _: Values) -> str:
    members = _members(rows)
    return (
        f"Starts {counted(len(rows), 'group')} with {counted(len(members), 'unit')} and claims"
        f" {_gpus(members)} of stock. All units of a group get stock, or the start is rejected."
    )


def _members(rows: Sequence[GpuUnit]) -> list[GpuUnit]:
    return [one for row in rows for one in _state(row).members]


def _gpus(members: Sequence[GpuUnit]) -> str:
    return all_gpus_text((one.resource_name, one.gpu) for one in members)


def _read_states(rows: Sequence[Any]) -> None:
    """Set the state of its group on each row, with one query."""
    for row, found in zip(rows, group_states(rows), strict=True):
        row.group_found = found


MAX_ID_DIGITS: Final = 19
GROUP_ACTIONS: Final = (
    Action(
        name="stop",
        label="Stop",
        consequence=_stop_consequence,
        obstacle=_stop_obstacle,
        service=service_call(group_stop, _address),
    ),
    Action(
        name="start",
        label="Start",
        consequence=_start_consequence,
        obstacle=_start_obstacle,
        service=service_call(group_start, _address),
    ),
    Action(
        name="delete",
        label="Delete",
        consequence=_delete_consequence,
        obstacle=_delete_obstacle,
        service=service_call(group_request_deletion, _address),
        is_final=True,
    ),
)


@admin.register(UnitGroup)
class UnitGroupAdmin(ActionAdmin):
    """The list and the pages of groups. Each row is the first unit of its group."""

    row_actions = GROUP_ACTIONS
    object_kind = GROUP_KIND
    search_order = 10
    row_nouns = "group,groups"
    empty_text = (
        "No unit groups yet. Users create them through the API (POST /api/v1/unit-groups). All"
        " units of a group get their stock together."
    )
    list_display = (
        "phase_column",
        "name_column",
        "namespace",
        "spec_column",
        "tenant_column",
        "ready_column",
        "created",
    )
    list_display_links = None
    list_filter = (SpecFilter, TenantFilter)
    search_fields = ("group_name",)
    search_help_text = "name"
    sortable_by = ("created",)

    phase_column = column("Phase", lambda row: phase_badge(_state(row).phase))
    name_column = column("Name", _name)
    spec_column = column("Spec", lambda row: visible(row.spec_name))
    tenant_column = column("Tenant", lambda row: visible(row.tenant.name) if row.tenant else "")
    ready_column = column("Ready", _ready)
    created = column("Created", lambda row: age_html(row.created_at), ordering="-created_at")

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[UnitGroup]:
        firsts = first_members().order_by().values("pk")
        rows: QuerySet[UnitGroup] = super().get_queryset(request).filter(pk__in=firsts)
        return rows.select_related("operation", "tenant")

    @override
    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> UnitGroup | None:
        """Return any unit of a group, even of a deleted one: operations link to its first unit."""
        is_id = object_id.isascii() and object_id.isdecimal() and len(object_id) < MAX_ID_DIGITS
        rows = UnitGroup.objects.exclude(group_name="").select_related("operation", "tenant")
        rows = rows.annotate(spec_row=spec_row())  # type: ignore[no-redef]  # declared
        return rows.filter(pk=int(object_id)).first() if is_id else None

    @override
    def annotate_rows(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        _read_states(rows)

    @override
    def lines(self, rows: Sequence[Any]) -> Sequence[RelatedRow]:
        _read_states(rows)
        return super().lines(rows)

    @override
    def line(self, row: GpuUnit) -> RelatedRow:
        """Return a group as a line of a table on another page."""
        return RelatedRow(
            badge=phase_badge(_state(row).phase),
            name=visible(row.group_name),
            url=page_url(row),
            text=f"{_ready(row)} units ready",
            since=age_html(row.created_at),
        )

    @override
    def detail(self, row: GpuUnit) -> Detail:
        group = _state(row)
        waiting = [one for one in group.members if one.waits_since is not None]
        is_barred = any(one.reason == UnitReason.WAITING_FOR_QUOTA for one in waiting)
        facts = [
            *(queue_facts(row, is_barred=is_barred) if waiting else ()),
            spec_fact(row.spec_name, row.spec_row),
            Fact("Units", f"{_ready(row)} ready"),
            Fact("Tenant", visible(row.tenant.name) if row.tenant else ""),
            Fact("Namespace", visible(row.namespace)),
            Fact("Address of rank 0", visible(object_name(member_name(row.group_name, 0)))),
            Fact.time("Created", row.created_at),
        ]
        return Detail(
            title=row.group_name,
            badge=mirror_badge(row) if row.deleted_at else phase_badge(group.phase),
            since=age_html(row.created_at),
            panel=None if row.deleted_at else group_panel(group),
            facts=[fact for fact in facts if fact.value],
            related=[
                Related("Units", [unit_line(one) for one in group.members]),
                operations_of(GROUP_KIND, row.pk, row.operation_id),
            ],
        )
