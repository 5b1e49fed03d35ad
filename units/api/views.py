"""Routes of GPU units, stock and the inventory."""

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform.api.endpoint import Endpoint
from gpuplatform.api.pagination import Page, decode_cursor, mapped, paginate
from gpuplatform.api.query import PageQuery
from gpuplatform.api.views import ApiView
from gpuplatform.errors import (
    InsufficientCapacity,
    NameConflict,
    NotFound,
    OperatorUnavailable,
    PhaseConflict,
    StaleEtag,
)
from gpuplatform.operations.api.replies import accepted_reply
from gpuplatform.operations.api.serializers import OperationReply
from gpuplatform.tenancy.callers import caller_of
from units.api.capacity import CapacityReply
from units.api.etags import IF_MATCH, etag_header, wanted_etag
from units.api.filters import (
    DeleteStockQuery,
    DeleteUnitQuery,
    LogQuery,
    ReadUnitQuery,
    StockQuery,
    UnitPageQuery,
    UnitQuery,
    UnitsQuery,
)
from units.api.serializers import EventReply, GpuUnitReply, HistoryReply, StockUnitReply
from units.api.waiting import unit_when_ready
from units.capacity import capacity
from units.inspection import unit_events, unit_log
from units.models import GpuUnit
from units.phases import UnitRole
from units.requests import GpuUnitCreate, GpuUnitUpdate, StockSeed, UnitAction
from units.selectors import history_of, stock_in, stock_live, unit_get, units_live
from units.services.stock import stock_remove, stock_seed
from units.services.units import (
    unit_create,
    unit_request_deletion,
    unit_start,
    unit_stop,
    unit_update,
)

_TAG = "GPU units"
_STOCK = "Stock"
_ACCEPTED = {202: OperationReply, 200: OperationReply}
_ETAG = OpenApiParameter(
    "ETag",
    str,
    OpenApiParameter.HEADER,
    response=[200],
    description="Names this version of what is wanted; for If-Match.",
)
_IF_MATCH = OpenApiParameter(
    IF_MATCH,
    str,
    OpenApiParameter.HEADER,
    description="The ETag that was read: the change is refused when the unit has another.",
)


class GpuUnits(ApiView):
    """All units of the tenant."""

    @Endpoint(
        id="listGpuUnits",
        summary="List your GPU units, newest first",
        tag=_TAG,
        query=UnitsQuery,
        replies={200: GpuUnitReply},
    )
    def get(self, request: Request, *, query: UnitsQuery) -> Response:
        """Return one page of units."""
        tenant = caller_of(request).tenant
        rows = units_live(UnitRole.ACTIVE).filter(namespace=tenant.namespace, **query.wanted())
        if query.namespace not in {None, tenant.namespace}:
            rows = rows.none()
        page = paginate(rows, query)
        return Response(mapped(page, [GpuUnitReply.of(row) for row in page.rows]))

    @Endpoint(
        id="createGpuUnit",
        summary="Create a GPU unit on ready stock",
        tag=_TAG,
        body=GpuUnitCreate,
        replies=_ACCEPTED,
        errors=[InsufficientCapacity, NameConflict, PhaseConflict],
    )
    def post(self, request: Request, *, body: GpuUnitCreate) -> Response:
        """Accept the creation; the unit is there at once as `Pending`, with its stock claimed."""
        return accepted_reply(request, unit_create(tenant=caller_of(request).tenant, body=body))


class GpuUnitDetail(ApiView):
    """One GPU unit."""

    @Endpoint(
        id="getGpuUnit",
        summary="Read one GPU unit, or wait until it is ready",
        tag=_TAG,
        query=ReadUnitQuery,
        replies={200: GpuUnitReply},
        errors=[NotFound],
        headers=[_ETAG],
    )
    def get(self, request: Request, *, name: str, query: ReadUnitQuery) -> Response:
        """Return the unit as it is when it is ready or the time is up."""
        unit = unit_when_ready(_place(request, query, name), name, query.seconds)
        return Response(GpuUnitReply.of(unit), headers=etag_header(unit))

    @Endpoint(
        id="putGpuUnit",
        summary="Change image, template or access of a GPU unit",
        tag=_TAG,
        body=GpuUnitUpdate,
        query=UnitQuery,
        replies=_ACCEPTED,
        errors=[NotFound, PhaseConflict, StaleEtag],
        headers=[_IF_MATCH],
    )
    def put(
        self, request: Request, *, name: str, body: GpuUnitUpdate, query: UnitQuery
    ) -> Response:
        """Accept the change: a given block replaces, one that is left out stays."""
        etag = wanted_etag(request.headers.get(IF_MATCH))
        _place(request, query, name)
        accepted = unit_update(tenant=caller_of(request).tenant, name=name, body=body, etag=etag)
        return accepted_reply(request, accepted)

    @Endpoint(
        id="deleteGpuUnit",
        summary="Delete a GPU unit",
        tag=_TAG,
        query=DeleteUnitQuery,
        replies=_ACCEPTED,
        errors=[NotFound],
    )
    def delete(self, request: Request, *, name: str, query: DeleteUnitQuery) -> Response:
        """Accept the deletion; the unit shows `Terminating` until its pods are gone."""
        _place(request, query, name)
        accepted = unit_request_deletion(
            tenant=caller_of(request).tenant, name=name, operation_id=query.operation_id
        )
        return accepted_reply(request, accepted)


class GpuUnitStop(ApiView):
    """Stopping a unit."""

    @Endpoint(
        id="stopGpuUnit",
        summary="Stop a GPU unit: its GPU is given up, its settings are kept",
        tag=_TAG,
        body=UnitAction,
        query=UnitQuery,
        replies=_ACCEPTED,
        errors=[NotFound, PhaseConflict],
    )
    def post(self, request: Request, *, name: str, body: UnitAction, query: UnitQuery) -> Response:
        """Accept the stop."""
        _place(request, query, name)
        accepted = unit_stop(
            tenant=caller_of(request).tenant, name=name, operation_id=body.operation_id
        )
        return accepted_reply(request, accepted)


class GpuUnitStart(ApiView):
    """Starting a unit that was stopped."""

    @Endpoint(
        id="startGpuUnit",
        summary="Start a stopped GPU unit on ready stock",
        tag=_TAG,
        body=UnitAction,
        query=UnitQuery,
        replies=_ACCEPTED,
        errors=[NotFound, PhaseConflict, InsufficientCapacity],
    )
    def post(self, request: Request, *, name: str, body: UnitAction, query: UnitQuery) -> Response:
        """Accept the start."""
        _place(request, query, name)
        accepted = unit_start(
            tenant=caller_of(request).tenant, name=name, operation_id=body.operation_id
        )
        return accepted_reply(request, accepted)


class GpuUnitLogs(ApiView):
    """What a unit wrote."""

    @Endpoint(
        id="getGpuUnitLogs",
        summary="Read the end of a GPU unit's log",
        tag=_TAG,
        query=LogQuery,
        replies={},
        text="The lines, as the container wrote them.",
        errors=[NotFound, PhaseConflict, OperatorUnavailable],
    )
    def get(self, request: Request, *, name: str, query: LogQuery) -> HttpResponse:
        """Return the log as text."""
        text = unit_log(
            _unit(request, query, name),
            tail=query.tail,
            previous=query.previous == "true",
            container=query.container,
        )
        return HttpResponse(text, content_type="text/plain; charset=utf-8")


class GpuUnitEvents(ApiView):
    """What the cluster said about a unit."""

    @Endpoint(
        id="listGpuUnitEvents",
        summary="List the cluster's events about a GPU unit, newest first",
        tag=_TAG,
        query=UnitPageQuery,
        replies={200: EventReply},
        errors=[NotFound, OperatorUnavailable],
    )
    def get(self, request: Request, *, name: str, query: UnitPageQuery) -> Response:
        """Return the newest events; the cluster keeps them for an hour or so."""
        _refuse_cursor(query)
        events = unit_events(_unit(request, query, name))[: query.limit]
        rows = [EventReply.model_validate(event) for event in events]
        return Response(Page(rows, None))


class GpuUnitHistory(ApiView):
    """What became of a unit."""

    @Endpoint(
        id="listGpuUnitHistory",
        summary="List the changes of a GPU unit's phase and reason, newest first",
        tag=_TAG,
        query=UnitPageQuery,
        replies={200: HistoryReply},
        errors=[NotFound],
    )
    def get(self, request: Request, *, name: str, query: UnitPageQuery) -> Response:
        """Return one page of changes."""
        page = paginate(history_of(_unit(request, query, name)), query)
        return Response(mapped(page, [HistoryReply.of(row) for row in page.rows]))


class StockUnits(ApiView):
    """Stock: capacity held ready, one unit each."""

    @Endpoint(
        id="listStockUnits",
        summary="List stock units, newest first",
        tag=_STOCK,
        query=StockQuery,
        replies={200: StockUnitReply},
    )
    def get(self, request: Request, *, query: StockQuery) -> Response:
        """Return one page of stock."""
        rows = stock_in(query.state) if query.state else stock_live()
        page = paginate(rows.filter(**query.wanted()), query)
        return Response(mapped(page, [StockUnitReply.of(row) for row in page.rows]))

    @Endpoint(
        id="seedStockUnits",
        summary="Seed stock: so many units of a GPU spec",
        tag=_STOCK,
        body=StockSeed,
        replies=_ACCEPTED,
        errors=[PhaseConflict],
    )
    def post(self, request: Request, *, body: StockSeed) -> Response:
        """Accept the seeding; its progress counts what is made."""
        return accepted_reply(request, stock_seed(tenant=caller_of(request).tenant, body=body))

    @Endpoint(
        id="removeStockUnits",
        summary="Remove exactly so many ready, unclaimed stock units, or none",
        tag=_STOCK,
        query=DeleteStockQuery,
        replies=_ACCEPTED,
        errors=[InsufficientCapacity],
    )
    def delete(self, request: Request, *, query: DeleteStockQuery) -> Response:
        """Accept the removal."""
        accepted = stock_remove(
            tenant=caller_of(request).tenant,
            operation_id=query.operation_id,
            spec_name=query.spec_name,
            number=query.number,
        )
        return accepted_reply(request, accepted)


class Inventory(ApiView):
    """How much capacity there is, and who has it."""

    @Endpoint(
        id="getInventory",
        summary="Read the capacity by GPU product and by GPU spec",
        tag=_STOCK,
        replies={200: CapacityReply},
    )
    def get(self, request: Request) -> Response:
        """Return the counts of one moment."""
        return Response(CapacityReply.of(capacity()))


def _place(request: Request, query: UnitQuery, name: str) -> str:
    """Return the namespace of the caller's units.

    Raises:
        NotFound: another one was asked for, in which the caller has none.
    """
    namespace = caller_of(request).tenant.namespace
    if query.namespace not in {None, namespace}:
        msg = f"There is no GPU unit '{name}' in the namespace '{query.namespace}'."
        raise NotFound(msg)
    return namespace


def _unit(request: Request, query: UnitQuery, name: str) -> GpuUnit:
    return unit_get(_place(request, query, name), name)


def _refuse_cursor(query: PageQuery) -> None:
    """Read a cursor that this list, which has one page, cannot have given."""
    if query.cursor is not None:
        decode_cursor("")
