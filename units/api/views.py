"""Views of the GPU unit routes."""

from django.db.models import QuerySet
from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform.api.endpoint import Endpoint
from gpuplatform.api.etags import ETAG_HEADER, IF_MATCH_HEADER, etag_header, expected_etag
from gpuplatform.api.pagination import (
    LightPages,
    Page,
    WithoutTemplate,
    decode_cursor,
    mapped,
    paginate,
    paginate_light,
)
from gpuplatform.api.parameters import response_header
from gpuplatform.api.query import PageQuery
from gpuplatform.api.views import ApiView
from gpuplatform.api.waiting import RETRY_SECONDS, SEATS
from gpuplatform.audit.services.entries import secret_read
from gpuplatform.audit.services.values import values_read
from gpuplatform.errors import (
    CapacityExceeded,
    InsufficientCapacity,
    NameConflict,
    NotFound,
    OperatorUnavailable,
    PhaseConflict,
    QueueFull,
    QuotaExceeded,
    StaleEtag,
    Throttled,
)
from gpuplatform.formats.masking import masked
from gpuplatform.operations.api.replies import accepted, accepted_reply
from gpuplatform.operations.selectors import OPERATION_UNREAD
from gpuplatform.operations.versions import version_of
from gpuplatform.tenancy.callers import caller_of
from gpuplatform.tenancy.permissions import Permission
from units.api.filters import (
    DeleteUnitQuery,
    LogQuery,
    ReadUnitQuery,
    UnitPageQuery,
    UnitQuery,
    UnitsQuery,
)
from units.api.serializers import EventReply, GpuUnitReply, HistoryReply, unit_replies
from units.api.waiting import unit_when_ready
from units.inspection import unit_events, unit_log
from units.models import GpuUnit
from units.phases import UnitRole
from units.requests import GpuUnitCreate, GpuUnitUpdate, UnitAction, UnitStart
from units.selectors import history_of, unit_get, units_live
from units.services.names import UNIT_KIND, UnitOperation
from units.services.units import (
    unit_create,
    unit_request_deletion,
    unit_start,
    unit_stop,
    unit_update,
)

_TAG = "GPU units"
_TOO_MANY_LOGS = "Too many logs are read at the same time. Read the log again later."
_UNIT = (UNIT_KIND, "trainer")
_NAMESPACE = "runtime-instance"
_LIGHT = WithoutTemplate("spec")


def _units(namespace: str) -> QuerySet[GpuUnit]:
    """Return the units of a namespace. A response contains nothing of the row of its tenant."""
    rows = units_live(UnitRole.ACTIVE).filter(namespace=namespace)
    return rows.select_related(None).select_related("operation")


_PAGES = LightPages(_units, "spec", _LIGHT, *OPERATION_UNREAD)


class GpuUnits(ApiView):
    """The view that lists and creates GPU units of the caller's tenant."""

    @Endpoint(
        id="listGpuUnits",
        summary="List your GPU units, newest first",
        tag=_TAG,
        query=UnitsQuery,
        replies={200: GpuUnitReply},
    )
    def get(self, request: Request, *, query: UnitsQuery) -> Response:
        """Return one page of units."""
        namespace = caller_of(request).tenant.namespace
        if query.namespace not in {None, namespace}:
            page: Page[GpuUnit] = Page([], [])
        elif query.is_filtered:
            rows = query.applied_to(_units(namespace))
            page = paginate_light(rows, query, "spec", _LIGHT, *OPERATION_UNREAD)
        else:
            page = _PAGES.page(namespace, query)
        # Nothing is masked, because the template is omitted.
        replies = unit_replies(page.rows, has_values=True)
        return Response(mapped(page, [reply.without("template") for reply in replies]))

    @Endpoint(
        id="createGpuUnit",
        summary="Create a GPU unit from a ready stock unit",
        tag=_TAG,
        body=GpuUnitCreate,
        replies=accepted(UnitOperation.CREATE, *_UNIT, namespace=_NAMESPACE),
        errors=[
            CapacityExceeded,
            InsufficientCapacity,
            NameConflict,
            QueueFull,
            QuotaExceeded,
        ],
    )
    def post(self, request: Request, *, body: GpuUnitCreate) -> Response:
        """Accept a request to create a unit, and claim a stock unit.

        The unit is `Pending` until its resource exists. With `wait`, it joins the queue of the GPU
        spec if no stock is left.
        """
        return accepted_reply(request, unit_create(tenant=caller_of(request).tenant, body=body))


class GpuUnitDetail(ApiView):
    """The view that returns, changes and deletes a GPU unit."""

    @Endpoint(
        id="getGpuUnit",
        summary="Read a GPU unit, and optionally wait until it is ready",
        tag=_TAG,
        query=ReadUnitQuery,
        replies={200: GpuUnitReply},
        errors=[NotFound],
        headers=[ETAG_HEADER, response_header("Retry-After", [200])],
    )
    def get(self, request: Request, *, name: str, query: ReadUnitQuery) -> Response:
        """Return the unit with its ETag, after the wait that the query requests."""
        namespace, caller = _namespace(request, query, name), caller_of(request)
        unit, retry_seconds = unit_when_ready(caller.tenant.pk, namespace, name, query.seconds)
        headers = etag_header(version_of(unit.uid, unit.generation))
        if retry_seconds:
            headers["Retry-After"] = str(retry_seconds)
        has_values = caller.may(Permission.WRITE)
        [reply] = unit_replies([unit], has_values=has_values)
        if has_values and masked(reply.template) != reply.template:
            place = {"namespace": namespace, "name": name, "uid": unit.uid}
            values_read(UNIT_KIND, tenant=caller.tenant.name, **place)
        return Response(reply, headers=headers)

    @Endpoint(
        id="putGpuUnit",
        summary="Change the image, the template or the access block of a GPU unit",
        tag=_TAG,
        body=GpuUnitUpdate,
        query=UnitQuery,
        replies=accepted(UnitOperation.UPDATE, *_UNIT, namespace=_NAMESPACE),
        errors=[NotFound, PhaseConflict, QuotaExceeded, StaleEtag],
        headers=[IF_MATCH_HEADER],
    )
    def put(
        self, request: Request, *, name: str, body: GpuUnitUpdate, query: UnitQuery
    ) -> Response:
        """Accept a request to change the unit. Omitted fields are unchanged."""
        etag = expected_etag(request)
        _namespace(request, query, name)
        result = unit_update(tenant=caller_of(request).tenant, name=name, body=body, etag=etag)
        return accepted_reply(request, result)

    @Endpoint(
        id="deleteGpuUnit",
        summary="Delete a GPU unit",
        tag=_TAG,
        query=DeleteUnitQuery,
        replies=accepted(UnitOperation.DELETE, *_UNIT, namespace=_NAMESPACE),
        errors=[NotFound],
    )
    def delete(self, request: Request, *, name: str, query: DeleteUnitQuery) -> Response:
        """Accept a request to delete the unit.

        The unit is `Terminating` until its pods have ended.
        """
        _namespace(request, query, name)
        result = unit_request_deletion(
            tenant=caller_of(request).tenant, name=name, operation_id=query.operation_id
        )
        return accepted_reply(request, result)


class GpuUnitStop(ApiView):
    """The view that stops a GPU unit."""

    @Endpoint(
        id="stopGpuUnit",
        summary="Stop a GPU unit, which releases its GPUs and keeps its spec",
        tag=_TAG,
        body=UnitAction,
        query=UnitQuery,
        replies=accepted(UnitOperation.STOP, *_UNIT, namespace=_NAMESPACE),
        errors=[NotFound, PhaseConflict],
    )
    def post(self, request: Request, *, name: str, body: UnitAction, query: UnitQuery) -> Response:
        """Accept a request to stop the unit."""
        _namespace(request, query, name)
        result = unit_stop(
            tenant=caller_of(request).tenant, name=name, operation_id=body.operation_id
        )
        return accepted_reply(request, result)


class GpuUnitStart(ApiView):
    """The view that starts a stopped GPU unit."""

    @Endpoint(
        id="startGpuUnit",
        summary="Start a stopped GPU unit with a ready stock unit",
        tag=_TAG,
        body=UnitStart,
        query=UnitQuery,
        replies=accepted(UnitOperation.START, *_UNIT, namespace=_NAMESPACE),
        errors=[NotFound, PhaseConflict, QuotaExceeded],
    )
    def post(self, request: Request, *, name: str, body: UnitStart, query: UnitQuery) -> Response:
        """Accept a request to start the unit.

        If no stock unit is ready, the operation waits in the queue of the GPU spec.
        """
        _namespace(request, query, name)
        result = unit_start(
            tenant=caller_of(request).tenant,
            name=name,
            operation_id=body.operation_id,
            wait=body.wait,
        )
        return accepted_reply(request, result)


class GpuUnitLogs(ApiView):
    """The view that returns the log of a GPU unit."""

    @Endpoint(
        id="getGpuUnitLogs",
        summary="Read the last lines of the log of a GPU unit",
        tag=_TAG,
        query=LogQuery,
        replies={},
        text="The last lines of the log.",
        errors=[NotFound, PhaseConflict, OperatorUnavailable, Throttled],
    )
    def get(self, request: Request, *, name: str, query: LogQuery) -> HttpResponse:
        """Return the log as plain text."""
        unit = _unit(request, query, name)
        tenant = caller_of(request).tenant.name
        place = {"namespace": unit.namespace, "name": name, "uid": unit.uid}
        secret_read("read-logs", UNIT_KIND, tenant=tenant, **place)
        with SEATS.seat(caller_of(request).tenant.pk) as is_seated:
            if not is_seated:
                raise Throttled(_TOO_MANY_LOGS, retry_after=RETRY_SECONDS)
            text = unit_log(
                unit,
                tail=query.tail,
                previous=query.previous == "true",
                container=query.container,
            )
        return HttpResponse(text, content_type="text/plain; charset=utf-8")


class GpuUnitEvents(ApiView):
    """The view that lists the Kubernetes Events about a GPU unit."""

    @Endpoint(
        id="listGpuUnitEvents",
        summary="List the Kubernetes Events about a GPU unit, newest first",
        tag=_TAG,
        query=UnitPageQuery,
        replies={200: EventReply},
        errors=[NotFound, OperatorUnavailable],
    )
    def get(self, request: Request, *, name: str, query: UnitPageQuery) -> Response:
        """Return the newest Events. Kubernetes keeps Events for about an hour."""
        _reject_cursor(query)
        events = unit_events(_unit(request, query, name))[: query.limit]
        return Response(Page([EventReply.of(event) for event in events], range(len(events))))


class GpuUnitHistory(ApiView):
    """The view that lists the history of a GPU unit."""

    @Endpoint(
        id="listGpuUnitHistory",
        summary="List the changes of a GPU unit's phase and reason, newest first",
        tag=_TAG,
        query=UnitPageQuery,
        replies={200: HistoryReply},
        errors=[NotFound],
    )
    def get(self, request: Request, *, name: str, query: UnitPageQuery) -> Response:
        """Return one page of the history."""
        page = paginate(history_of(_unit(request, query, name)).defer(*OPERATION_UNREAD), query)
        return Response(mapped(page, [HistoryReply.of(row) for row in page.rows]))


def _namespace(request: Request, query: UnitQuery, name: str) -> str:
    """Return the namespace of the caller's tenant.

    Raises:
        NotFound: If the query names another namespace, in which the tenant has no units.
    """
    namespace = caller_of(request).tenant.namespace
    if query.namespace not in {None, namespace}:
        msg = f"The GPU unit '{name}' does not exist in the namespace '{query.namespace}'."
        raise NotFound(msg)
    return namespace


def _unit(request: Request, query: UnitQuery, name: str) -> GpuUnit:
    return unit_get(_namespace(request, query, name), name)


def _reject_cursor(query: PageQuery) -> None:
    """Reject every cursor, because a list of Events has only one page."""
    if query.cursor is not None:
        decode_cursor("")
