"""The capacity queue in the admin: the waiting requests in order, with the cause of the wait."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from django.contrib import admin
from django.contrib.postgres.fields import ArrayField
from django.db.models import BigIntegerField, F, Func, Q, QuerySet, Value
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.actions.action import Action, ActionRequest, ActionResult, Values
from gpuplatform.adminkit.actions.model_admin import ActionAdmin
from gpuplatform.adminkit.detail.panels import Detail, Fact, RelatedRow
from gpuplatform.adminkit.display.age import age_html, ago_html, span
from gpuplatform.adminkit.display.badges import phase_badge
from gpuplatform.adminkit.display.text import counted, operation_id_html, visible
from gpuplatform.adminkit.display.urls import page_url
from gpuplatform.adminkit.lists.filters import SpecFilter, TenantFilter
from gpuplatform.adminkit.lists.model_admin import column
from gpuplatform.operations.admin_actions import CANCEL
from gpuplatform.operations.models import Operation
from gpuplatform.operations.registry import QueuePlace
from units.admin.detail import unit_url
from units.models import ActiveUnit, CapacityRequest, GpuUnit
from units.phases import QUEUE_CAUSES, QueueCause, UnitPhase
from units.queue_entries import causes_of, causes_of_requests
from units.waiting import OPEN, hold_ends_at, place_of, places_in

UNKNOWN_PLACE: Final = QueuePlace(0, None)


def estimate_text(place: QueuePlace) -> str:
    """Return the estimated waiting time, or that it is unknown."""
    if place.seconds is None:
        return "unknown"
    low, high = (span(seconds) for seconds in place.seconds)
    return low if low == high else f"{low} to {high}"


def queue_facts(unit: GpuUnit, *, is_barred: bool) -> Sequence[Fact]:
    """Return the facts of a unit that waits for capacity: its place, the cause, and its end.

    `is_barred` is whether it waits because of a limit of its tenant.
    """
    about = Q(unit=unit) | Q(operation=unit.operation_id)  # A group has one request.
    rows = CapacityRequest.objects.filter(OPEN, about).select_related("operation")
    request = rows.first()
    if request is None:
        return ()
    place = place_of(request) or UNKNOWN_PLACE
    name = request.spec_name
    cause = QueueCause.WAITING_FOR_QUOTA if is_barred else causes_of([name])[name]
    explained = QUEUE_CAUSES[cause]
    return (
        Fact("Queue position", f"{place.position}, {place.ahead} ahead"),
        Fact("Priority", _priority(request)),
        Fact("Estimated wait", estimate_text(place)),
        Fact("Cause of the wait", f"{explained.meaning} {explained.next_step}"),
        *_hold_facts(request),
        Fact("Waits until", ago_html(request.expires_at)),
        Fact("Waiting operation", visible(str(request)), page_url(request.operation)),
    )


def _hold_facts(request: CapacityRequest) -> Sequence[Fact]:
    until = hold_ends_at(request)
    return () if until is None else (Fact("Hold of free stock ends", ago_html(until)),)


def _unit_link(row: CapacityRequest) -> SafeString:
    unit = row.unit
    text = f"{unit.group_name} ({counted(row.count, 'unit')})" if unit.group_name else unit.name
    return format_html('<a href="{}"><b>{}</b></a>', unit_url(unit), visible(text))


def _operation_link(row: CapacityRequest) -> SafeString:
    key = operation_id_html(row.operation.operation_id)
    return format_html('<a href="{}">{}</a>', page_url(row.operation), key)


def _priority(row: CapacityRequest) -> str:
    """Return the priority, and whether the request is preemptible, so that it is last."""
    return f"{row.priority}, preemptible" if row.is_preemptible else str(row.priority)


def _why(row: Any) -> SafeString:
    """Return the cause of the wait and the next step, and until when free stock is held for it."""
    cause: QueueCause = row.cause
    explained, until = QUEUE_CAUSES[cause], hold_ends_at(row)
    held = (
        "" if until is None else format_html(" The hold of free stock ends {}.", ago_html(until))
    )
    return format_html("{} {}{}", explained.meaning, explained.next_step, held)


def _operations(rows: Sequence[CapacityRequest]) -> list[Operation]:
    return [row.operation for row in rows]


def _cancel_consequence(rows: Sequence[CapacityRequest], values: Values) -> str:
    units = counted(sum(row.count for row in rows), "stock unit")
    held = sum(row.hold_begun_at is not None for row in rows)
    free = f" Ends {counted(held, 'hold')} of free stock." if held else ""
    cancelled = CANCEL.consequence(_operations(rows), values)
    return f"Ends the wait for {units}.{free} {cancelled}"


def _cancel(request: ActionRequest) -> ActionResult:
    return CANCEL.service(
        ActionRequest(request.row.operation, request.operation_id, request.values)
    )


CANCEL_REQUEST: Final = Action(
    name="cancel",
    label="Cancel",
    consequence=_cancel_consequence,
    obstacle=lambda row: CANCEL.obstacle(row.operation),
    service=_cancel,
    is_final=True,
    button="Cancel request",
)
"""Cancels the operation of a request, which closes the request."""


def _places(request: HttpRequest) -> Mapping[int, QueuePlace]:
    """Return the places of all open requests, which are determined once per HTTP request."""
    found: Mapping[int, QueuePlace] | None = request.__dict__.get("queue_places")
    if found is None:
        request.__dict__["queue_places"] = found = places_in()
    return found


@admin.register(CapacityRequest)
class CapacityRequestAdmin(ActionAdmin):
    """The list of the requests that wait for stock, by GPU spec and in order."""

    row_actions = (CANCEL_REQUEST,)
    list_display = (
        "position_column",
        "unit_column",
        "tenant_column",
        "spec_column",
        "priority_column",
        "why_column",
        "estimate_column",
        "since",
        "expires",
        "operation_column",
    )
    list_display_links = None
    list_filter = (SpecFilter, TenantFilter)
    search_fields = ("unit__name", "operation__operation_id")
    search_help_text = "unit or operationID"
    row_nouns = "request,requests"
    empty_text = (
        "No request waits for stock. Requests wait if no stock of their GPU spec is ready, and"
        " units that are started without ready stock wait, too."
    )
    sortable_by: ClassVar[tuple[str, ...]] = ()

    position_column = column("Position", lambda row: row.place.position or None)
    unit_column = column("Unit", _unit_link)
    tenant_column = column("Tenant", lambda row: visible(row.tenant.name))
    spec_column = column("Spec", lambda row: visible(row.spec_name))
    priority_column = column("Priority", _priority)
    why_column = column("Cause", _why)
    estimate_column = column("Estimate", lambda row: estimate_text(row.place))
    since = column("Waits", lambda row: age_html(row.requested_at))
    expires = column("Until", lambda row: age_html(row.expires_at))
    operation_column = column("Operation", _operation_link)

    @override
    def offered_permissions(self) -> Mapping[str, str]:
        return {}  # The permissions for units and for operations apply.

    @override
    def may(self, request: HttpRequest, action: Action) -> bool:
        """Return whether the user can cancel operations."""
        operations = admin.site.get_model_admin(Operation)
        return isinstance(operations, ActionAdmin) and operations.may(request, CANCEL)

    @override
    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    @override
    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return admin.site.get_model_admin(ActiveUnit).has_view_permission(request)

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[CapacityRequest]:
        """Return the open requests without an order, for which each page would read the queues."""
        return CapacityRequest.objects.filter(OPEN).select_related("unit", "tenant", "operation")

    @override
    def get_ordering(self, request: HttpRequest) -> tuple[Any, ...]:
        """Return the order of the queues."""
        numbers = Value([*_places(request)], output_field=ArrayField(BigIntegerField()))
        place = Func(numbers, F("pk"), function="array_position", output_field=BigIntegerField())
        return "spec_name", place.asc(nulls_last=True), "pk"

    @override
    def annotate_rows(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        places, causes = _places(request), causes_of_requests(rows)
        for row in rows:
            row.place, row.cause = places.get(row.pk, UNKNOWN_PLACE), causes[row.pk]

    @override
    def detail(self, row: CapacityRequest) -> Detail:
        """Return only the first line: `page` redirects to the page of the unit."""
        line = self.line(row)
        return Detail(title=line.name, badge=line.badge, since=line.since)

    @override
    def line(self, row: CapacityRequest) -> RelatedRow:
        return RelatedRow(
            badge=phase_badge(UnitPhase.PENDING, "Waiting for capacity"),
            name=row.unit.group_name or row.unit.name,
            url=unit_url(row.unit),
            text=f"{row.spec_name}: {counted(row.count, 'stock unit')}",
            since=age_html(row.requested_at),
        )

    @override
    def page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Redirect to the page of the unit."""
        row = self.get_object(request, object_id)
        if row is None:
            raise Http404
        return HttpResponseRedirect(unit_url(row.unit))
