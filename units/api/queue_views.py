"""The view of the capacity queue, and its response."""

from datetime import datetime
from typing import Annotated, Self

from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform.api.endpoint import Endpoint
from gpuplatform.api.pagination import Page, decode_cursor
from gpuplatform.api.query import PageQuery, Word
from gpuplatform.api.schema import NullIfEmpty, Reply
from gpuplatform.api.views import ApiView
from gpuplatform.operations.api.serializers import QueueReply
from units.phases import QueueCause
from units.queue_entries import QueueEntry, queue_entries
from units.waiting import hold_ends_at


class QueueQuery(PageQuery):
    """Filters of the capacity queue."""

    spec_name: Word | None = Field(
        default=None, alias="specName", description="Only requests of this GPU spec."
    )
    tenant: Word | None = Field(default=None, description="Return only rows of this tenant.")


class QueueEntryReply(Reply):
    """A request that waits for stock."""

    spec_name: str = Field(description="Name of the GPU spec.", examples=["h100-1g"])
    queue: QueueReply
    cause: QueueCause
    tenant: str = Field(description="Name of the tenant.", examples=["default"])
    priority: int = Field(description="Priority.", examples=[0])
    preemptible: bool = Field(description="Whether the unit is preemptible.", examples=[False])
    operation_id: str = Field(description="operationID.", examples=["create-1"])
    unit: str = Field(description="Name of the unit.", examples=["trainer"])
    group: Annotated[str | None, NullIfEmpty] = Field(
        description="Name of the group; null for a single unit."
    )
    size: int = Field(description="Number of stock units.", examples=[1])
    requested_at: datetime = Field(description="Time of the request.")
    expires_at: datetime = Field(description="Time at which the request ends.")
    held_until: datetime | None = Field(
        description="Time until which free stock is held for the request; null if none is."
    )

    @classmethod
    def of(cls, entry: QueueEntry) -> Self:
        """Return the response for a waiting request."""
        row = entry.request
        return cls(
            spec_name=row.spec_name,
            queue=QueueReply.model_validate(entry.place),
            cause=entry.cause,
            tenant=row.tenant.name,
            priority=row.priority,
            preemptible=row.is_preemptible,
            operation_id=row.operation.operation_id,
            unit=row.unit.name,
            group=row.unit.group_name,
            size=row.count,
            requested_at=row.requested_at,
            expires_at=row.expires_at,
            held_until=hold_ends_at(row),
        )


class CapacityQueue(ApiView):
    """The view that lists the requests that wait for stock."""

    @Endpoint(
        id="listCapacityQueue",
        summary="List the requests that wait for stock, by GPU spec and in order",
        tag="Stock",
        query=QueueQuery,
        replies={200: QueueEntryReply},
    )
    def get(self, request: Request, *, query: QueueQuery) -> Response:
        """Return one page of requests. The order can change between two pages."""
        entries = queue_entries(spec_name=query.spec_name or "", tenant=query.tenant or "")
        begin = 0 if query.cursor is None else decode_cursor(query.cursor)
        end = begin + query.limit
        rows = [QueueEntryReply.of(entry) for entry in entries[begin:end]]
        return Response(Page(rows, range(begin + 1, end + 1), has_more=end < len(entries)))
