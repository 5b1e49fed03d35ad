"""Views of operations: `/operator/jobs` for operators, `/operations` for users."""

from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform.api.endpoint import Endpoint
from gpuplatform.api.pagination import mapped, paginate_light
from gpuplatform.api.views import ApiView
from gpuplatform.errors import (
    CapacityExceeded,
    InsufficientCapacity,
    NameConflict,
    NotFound,
    PhaseConflict,
    QueueFull,
    StaleEtag,
)
from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.operation_id import OperationID
from gpuplatform.operations.api.filters import JobsQuery, OperationsQuery, TenantQuery
from gpuplatform.operations.api.replies import accepted, accepted_reply
from gpuplatform.operations.api.serializers import (
    AddressedParts,
    OperationReply,
    operation_replies,
)
from gpuplatform.operations.interventions import (
    OPERATION_KIND,
    Intervention,
    operation_cancel,
    operation_retry,
)
from gpuplatform.operations.selectors import operation_get, operations_of
from gpuplatform.tenancy.callers import caller_of
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.selectors import tenant_by_name

_JOBS = "Operations (operators)"
_OWN = "Operations"


class JobAction(SpecModel):
    """The request body that cancels or retries an operation."""

    operation_id: OperationID = Field(alias="operationID")


class Jobs(ApiView):
    """The operations of any tenant."""

    @Endpoint(
        id="listJobs",
        summary="List the operations of a tenant, newest first",
        tag=_JOBS,
        query=JobsQuery,
        replies={200: OperationReply},
        errors=[NotFound],
    )
    def get(self, request: Request, *, query: JobsQuery) -> Response:
        """Return one page of operations."""
        return _page(_tenant(request, query), query)


class Job(ApiView):
    """An operation of any tenant."""

    @Endpoint(
        id="getJob",
        summary="Read an operation of a tenant",
        tag=_JOBS,
        query=TenantQuery,
        replies={200: OperationReply},
        errors=[NotFound],
    )
    def get(self, request: Request, *, operation_id: str, query: TenantQuery) -> Response:
        """Return the current state of the operation."""
        return _one(_tenant(request, query), operation_id)


class JobCancel(ApiView):
    """The cancellation of an operation."""

    @Endpoint(
        id="cancelJob",
        summary="Cancel a waiting operation or a seeding in progress",
        tag=_JOBS,
        body=JobAction,
        query=TenantQuery,
        replies=accepted(Intervention.CANCEL, OPERATION_KIND, "create-gpu-unit-1"),
        errors=[NotFound, PhaseConflict],
    )
    def post(
        self, request: Request, *, operation_id: str, body: JobAction, query: TenantQuery
    ) -> Response:
        """Accept a request to cancel the operation. Objects that it created are not deleted."""
        job = operation_get(_tenant(request, query), operation_id)
        result = operation_cancel(operation=job, operation_id=body.operation_id)
        return accepted_reply(request, result)


class JobRetry(ApiView):
    """The retry of a failed operation."""

    @Endpoint(
        id="retryJob",
        summary="Retry a failed operation as a new operation",
        tag=_JOBS,
        body=JobAction,
        query=TenantQuery,
        replies=accepted("stockpool.create", "StockPool", "h100", namespace="default"),
        errors=[
            *(NotFound, PhaseConflict, NameConflict, StaleEtag),
            *(CapacityExceeded, InsufficientCapacity, QueueFull),
        ],
    )
    def post(
        self, request: Request, *, operation_id: str, body: JobAction, query: TenantQuery
    ) -> Response:
        """Accept the failed request, or the remaining part of it, as a new operation."""
        job = operation_get(_tenant(request, query), operation_id)
        result = operation_retry(operation=job, operation_id=body.operation_id)
        return accepted_reply(request, result)


class OwnOperations(ApiView):
    """The operations of the caller's tenant."""

    @Endpoint(
        id="listOperations",
        summary="List your operations, newest first",
        tag=_OWN,
        query=OperationsQuery,
        replies={200: OperationReply},
    )
    def get(self, request: Request, *, query: OperationsQuery) -> Response:
        """Return one page of operations."""
        return _page(caller_of(request).tenant, query)


class OwnOperation(ApiView):
    """An operation of the caller's tenant."""

    @Endpoint(
        id="getOperation",
        summary="Read one of your operations",
        tag=_OWN,
        replies={200: OperationReply},
        errors=[NotFound],
    )
    def get(self, request: Request, *, operation_id: str) -> Response:
        """Return the current state of the operation."""
        return _one(caller_of(request).tenant, operation_id)


def _page(tenant: Tenant, query: OperationsQuery) -> Response:
    rows = query.applied_to(operations_of(tenant))
    page = paginate_light(rows, query, "payload", AddressedParts("payload"))
    return Response(mapped(page, operation_replies(page.rows)))


def _one(tenant: Tenant, operation_id: str) -> Response:
    [reply] = operation_replies([operation_get(tenant, operation_id)])
    return Response(reply)


def _tenant(request: Request, query: TenantQuery) -> Tenant:
    return tenant_by_name(query.tenant) if query.tenant else caller_of(request).tenant
