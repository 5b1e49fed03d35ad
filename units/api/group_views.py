"""Views of the routes of unit groups, and their response."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Self

from django.db.models import QuerySet
from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform.api.endpoint import Endpoint
from gpuplatform.api.pagination import WithoutTemplate, mapped, paginate_light
from gpuplatform.api.query import DeletionQuery, PageQuery, Word
from gpuplatform.api.schema import Reply
from gpuplatform.api.views import ApiView
from gpuplatform.errors import (
    CapacityExceeded,
    InsufficientCapacity,
    NameConflict,
    NotFound,
    PhaseConflict,
    QueueFull,
    QuotaExceeded,
)
from gpuplatform.operations.api.replies import accepted, accepted_reply
from gpuplatform.operations.api.resources import Message
from gpuplatform.operations.api.serializers import QueueReply
from gpuplatform.operations.registry import QueuePlace
from gpuplatform.tenancy.callers import caller_of
from units.group_members import UnitGroupState, first_members, group_get, group_states
from units.phases import UnitPhase
from units.requests import UnitAction, UnitGroupCreate
from units.services.group_runs import group_start, group_stop
from units.services.groups import group_create, group_request_deletion
from units.services.names import GROUP_KIND, UnitOperation
from units.waiting import places_of_units

_TAG = "GPU units"
_GROUP = (GROUP_KIND, "training")
_NAMESPACE = "runtime-instance"
_SIZE = 4


class GroupsQuery(PageQuery):
    """Filters of the list of groups."""

    spec_name: Word | None = Field(
        default=None, alias="specName", description="Only groups of this GPU spec."
    )
    search: Word | None = Field(
        default=None, description="Only groups whose name contains this text, ignoring case."
    )

    def applied_to(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the first units of the groups that match all filters."""
        wanted = {"spec_name": self.spec_name, "group_name__icontains": self.search}
        return rows.filter(**{key: value for key, value in wanted.items() if value})


class GroupMemberReply(Reply):
    """A unit of a group."""

    name: str = Field(description="Name of the unit.", examples=["training-0"])
    rank: int = Field(description="Rank of the unit.", examples=[0])
    phase: UnitPhase = Field(
        description="Summary of the state of the unit.", examples=[UnitPhase.READY.value]
    )
    reason: str = Field(description="Code that explains the phase.", examples=["UnitReady"])
    message: Message


class UnitGroupReply(Reply):
    """A group of GPU units, which get their stock together."""

    name: str = Field(description="Name of the group.", examples=["training"])
    namespace: str = Field(description="Namespace of the units.", examples=[_NAMESPACE])
    spec_name: str = Field(description="Name of the GPU spec.", examples=["h100-1g"])
    size: int = Field(description="Number of units of the complete group.", examples=[_SIZE])
    ready: int = Field(description="Number of ready units.", examples=[_SIZE])
    phase: UnitPhase = Field(
        description="Summary of the phases of the units. `Failed` if a unit failed or is missing.",
        examples=[UnitPhase.READY.value],
    )
    queue: QueueReply | None = Field(
        description="Place in the queue for stock; null if the group does not wait."
    )
    created_at: datetime = Field(description="Time at which the creation was accepted.")
    members: list[GroupMemberReply] = Field(description="The units that exist, by rank.")

    @classmethod
    def of(cls, group: UnitGroupState, place: QueuePlace | None) -> Self:
        """Return the response for a group, with its place in the queue if it waits."""
        first = group.first
        return cls(
            name=first.group_name,
            namespace=first.namespace,
            spec_name=first.spec_name,
            size=group.size,
            ready=group.ready,
            phase=group.phase,
            queue=QueueReply.model_validate(place) if place else None,
            created_at=first.created_at,
            members=[
                GroupMemberReply(
                    name=one.name,
                    rank=one.group_rank or 0,
                    phase=UnitPhase(one.phase),
                    reason=one.reason,
                    message=one.message,
                )
                for one in group.members
            ],
        )


class UnitGroups(ApiView):
    """The view that lists and creates unit groups of the caller's tenant."""

    @Endpoint(
        id="listUnitGroups",
        summary="List your unit groups, newest first",
        tag=_TAG,
        query=GroupsQuery,
        replies={200: UnitGroupReply},
    )
    def get(self, request: Request, *, query: GroupsQuery) -> Response:
        """Return one page of groups."""
        rows = first_members().filter(namespace=caller_of(request).tenant.namespace)
        page = paginate_light(
            query.applied_to(rows), query, "spec", WithoutTemplate("spec"), "operation__payload"
        )
        return Response(mapped(page, _replies(group_states(page.rows))))

    @Endpoint(
        id="createUnitGroup",
        summary="Create a group of GPU units: all of them get stock, or none",
        tag=_TAG,
        body=UnitGroupCreate,
        replies=accepted(UnitOperation.GROUP_CREATE, *_GROUP, namespace=_NAMESPACE, total=_SIZE),
        errors=[
            CapacityExceeded,
            InsufficientCapacity,
            NameConflict,
            QueueFull,
            QuotaExceeded,
        ],
    )
    def post(self, request: Request, *, body: UnitGroupCreate) -> Response:
        """Accept a request to create the units `<name>-<rank>`, and claim stock for all of them.

        With `wait`, the group joins the queue as one request.
        """
        return accepted_reply(request, group_create(tenant=caller_of(request).tenant, body=body))


class UnitGroupDetail(ApiView):
    """The view that returns and deletes a unit group."""

    @Endpoint(
        id="getUnitGroup",
        summary="Read a unit group",
        tag=_TAG,
        replies={200: UnitGroupReply},
        errors=[NotFound],
    )
    def get(self, request: Request, *, name: str) -> Response:
        """Return the group with its units."""
        [reply] = _replies([group_get(caller_of(request).tenant.namespace, name)])
        return Response(reply)

    @Endpoint(
        id="deleteUnitGroup",
        summary="Delete a unit group with all of its units",
        tag=_TAG,
        query=DeletionQuery,
        replies=accepted(UnitOperation.GROUP_DELETE, *_GROUP, namespace=_NAMESPACE, total=_SIZE),
        errors=[NotFound],
    )
    def delete(self, request: Request, *, name: str, query: DeletionQuery) -> Response:
        """Accept a request to delete all units of the group."""
        result = group_request_deletion(
            tenant=caller_of(request).tenant, name=name, operation_id=query.operation_id
        )
        return accepted_reply(request, result)


class UnitGroupStop(ApiView):
    """The view that stops a unit group."""

    @Endpoint(
        id="stopUnitGroup",
        summary="Stop all units of a group, which releases their GPUs",
        tag=_TAG,
        body=UnitAction,
        replies=accepted(UnitOperation.GROUP_STOP, *_GROUP, namespace=_NAMESPACE, total=_SIZE),
        errors=[NotFound, PhaseConflict],
    )
    def post(self, request: Request, *, name: str, body: UnitAction) -> Response:
        """Accept a request to stop all units of the group, which keep their names and specs."""
        result = group_stop(
            tenant=caller_of(request).tenant, name=name, operation_id=body.operation_id
        )
        return accepted_reply(request, result)


class UnitGroupStart(ApiView):
    """The view that starts a stopped unit group."""

    @Endpoint(
        id="startUnitGroup",
        summary="Start a stopped unit group: all of its units get stock, or none",
        tag=_TAG,
        body=UnitAction,
        replies=accepted(UnitOperation.GROUP_START, *_GROUP, namespace=_NAMESPACE, total=_SIZE),
        errors=[CapacityExceeded, InsufficientCapacity, NotFound, PhaseConflict, QuotaExceeded],
    )
    def post(self, request: Request, *, name: str, body: UnitAction) -> Response:
        """Accept a request to start all units of the group, and claim ready stock for each.

        The request does not wait for stock. If the start of a unit fails, all units are stopped.
        """
        result = group_start(
            tenant=caller_of(request).tenant, name=name, operation_id=body.operation_id
        )
        return accepted_reply(request, result)


def _replies(groups: Sequence[UnitGroupState]) -> list[UnitGroupReply]:
    waiting = [one.first.pk for one in groups if one.first.waits_since is not None]
    places = places_of_units(waiting) if waiting else {}
    return [UnitGroupReply.of(one, places.get(one.first.pk)) for one in groups]
