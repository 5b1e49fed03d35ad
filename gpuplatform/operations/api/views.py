"""Routes of the jobs API."""

from datetime import timedelta

from django.db.models.functions import Now
from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform.api.endpoint import Endpoint
from gpuplatform.api.pagination import mapped, paginate
from gpuplatform.api.query import PageQuery, Query, QueryInt
from gpuplatform.api.views import ApiView
from gpuplatform.errors import (
    InsufficientCapacity,
    NameConflict,
    NotFound,
    PhaseConflict,
    StaleEtag,
)
from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.operation_id import OperationID
from gpuplatform.operations.api.replies import accepted_reply
from gpuplatform.operations.api.serializers import OperationReply
from gpuplatform.operations.interventions import operation_cancel, operation_retry
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.operations.selectors import (
    MAX_SEARCHED,
    operation_get,
    operations_of,
    operations_with,
)
from gpuplatform.tenancy.callers import caller_of
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.selectors import tenant_by_name

_TAG = "Jobs"
_ACCEPTED = {202: OperationReply, 200: OperationReply}


class JobAction(SpecModel):
    """Cancels a job, or asks for it again."""

    operation_id: OperationID = Field(alias="operationID")


class JobQuery(Query):
    """Whose job."""

    tenant: str | None = Field(
        default=None,
        max_length=63,
        description="The tenant whose it is; left out: the caller's own.",
        examples=["default"],
    )


class JobsQuery(JobQuery, PageQuery):
    """Filters of the list of jobs."""

    kind: str | None = Field(
        default=None, max_length=64, description="Only this kind.", examples=["stockpool.create"]
    )
    phase: OperationPhase | None = Field(default=None, description="Only this phase.")
    max_age_seconds: QueryInt | None = Field(
        default=None,
        ge=1,
        le=10**9,
        alias="maxAgeSeconds",
        description="Only jobs accepted within so many seconds.",
        examples=[3600],
    )
    search: str | None = Field(
        default=None,
        max_length=128,
        description="Only jobs whose operationID or object's name has this in it. The newest"
        f" {MAX_SEARCHED:,} are looked through; an older one is read by its operationID.",
    )


class Jobs(ApiView):
    """All jobs of the tenant."""

    @Endpoint(
        id="listJobs",
        summary="List jobs (operations), newest first",
        tag=_TAG,
        query=JobsQuery,
        replies={200: OperationReply},
        errors=[NotFound],
    )
    def get(self, request: Request, *, query: JobsQuery) -> Response:
        """Return one page of jobs."""
        rows = operations_of(_tenant(request, query))
        if query.kind:
            rows = rows.filter(kind=query.kind)
        if query.phase:
            rows = rows.filter(phase=query.phase)
        if query.max_age_seconds:
            rows = rows.filter(created_at__gt=Now() - timedelta(seconds=query.max_age_seconds))
        if query.search:
            rows = operations_with(rows, query.search)
        page = paginate(rows, query)
        return Response(mapped(page, [OperationReply.of(row) for row in page.rows]))


class Job(ApiView):
    """One job."""

    @Endpoint(
        id="getJob",
        summary="Read one job (operation) by its operationID",
        tag=_TAG,
        query=JobQuery,
        replies={200: OperationReply},
        errors=[NotFound],
    )
    def get(self, request: Request, *, operation_id: str, query: JobQuery) -> Response:
        """Return the job in its present state."""
        return Response(OperationReply.of(operation_get(_tenant(request, query), operation_id)))


class JobCancel(ApiView):
    """The end of a job before it is done."""

    @Endpoint(
        id="cancelJob",
        summary="Cancel a job that waits, or a seeding between its parts",
        tag=_TAG,
        body=JobAction,
        query=JobQuery,
        replies=_ACCEPTED,
        errors=[NotFound, PhaseConflict],
    )
    def post(
        self, request: Request, *, operation_id: str, body: JobAction, query: JobQuery
    ) -> Response:
        """Accept the cancellation: what was made stays, the rest is given up."""
        job = operation_get(_tenant(request, query), operation_id)
        accepted = operation_cancel(operation=job, operation_id=body.operation_id)
        return accepted_reply(request, accepted)


class JobRetry(ApiView):
    """A job that failed, once more."""

    @Endpoint(
        id="retryJob",
        summary="Ask again for what failed, under a new operationID",
        tag=_TAG,
        body=JobAction,
        query=JobQuery,
        replies=_ACCEPTED,
        errors=[NotFound, PhaseConflict, NameConflict, InsufficientCapacity, StaleEtag],
    )
    def post(
        self, request: Request, *, operation_id: str, body: JobAction, query: JobQuery
    ) -> Response:
        """Accept the same request, or the rest of it, as a job of its own."""
        job = operation_get(_tenant(request, query), operation_id)
        accepted = operation_retry(operation=job, operation_id=body.operation_id)
        return accepted_reply(request, accepted)


class OwnOperation(ApiView):
    """One operation of the caller's tenant."""

    @Endpoint(
        id="getOperation",
        summary="Read one of your operations by its operationID",
        tag="Operations",
        replies={200: OperationReply},
        errors=[NotFound],
    )
    def get(self, request: Request, *, operation_id: str) -> Response:
        """Return the operation in its present state."""
        return Response(OperationReply.of(operation_get(caller_of(request).tenant, operation_id)))


def _tenant(request: Request, query: JobQuery) -> Tenant:
    return tenant_by_name(query.tenant) if query.tenant else caller_of(request).tenant
