"""Views of the tenant routes."""

from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform.api.endpoint import Endpoint
from gpuplatform.api.etags import ETAG_HEADER, IF_MATCH_HEADER, etag_header, expected_etag
from gpuplatform.api.pagination import mapped, paginate
from gpuplatform.api.query import DeletionQuery
from gpuplatform.api.views import ApiView
from gpuplatform.errors import InUse, NameConflict, NotFound, PhaseConflict, StaleEtag
from gpuplatform.operations.api.replies import accepted, accepted_reply
from gpuplatform.tenancy.callers import caller_of
from gpuplatform.tenancy.selectors import tenant_by_name, tenants_live
from gpuplatform.tenants.api.serializers import TenantReply, TenantsQuery
from gpuplatform.tenants.names import TENANT_KIND, TenantOperation
from gpuplatform.tenants.requests import TenantAction, TenantCreate, TenantPatch
from gpuplatform.tenants.services.tenants import (
    tenant_create,
    tenant_request_deletion,
    tenant_resume,
    tenant_suspend,
    tenant_update,
    tenant_version,
)

_TAG = "Tenants"
_TENANT = (TENANT_KIND, "acme")


class Tenants(ApiView):
    """The view that lists and creates tenants."""

    @Endpoint(
        id="listTenants",
        summary="List tenants, newest first",
        tag=_TAG,
        query=TenantsQuery,
        replies={200: TenantReply},
    )
    def get(self, request: Request, *, query: TenantsQuery) -> Response:
        """Return one page of tenants."""
        page = paginate(query.applied_to(tenants_live()), query)
        return Response(mapped(page, [TenantReply.of(row) for row in page.rows]))

    @Endpoint(
        id="createTenant",
        summary="Create a tenant with its namespace",
        tag=_TAG,
        body=TenantCreate,
        replies=accepted(TenantOperation.CREATE, *_TENANT),
        errors=[NameConflict],
    )
    def post(self, request: Request, *, body: TenantCreate) -> Response:
        """Accept a request to create a tenant, which is `Pending` until its namespace exists."""
        return accepted_reply(request, tenant_create(tenant=caller_of(request).tenant, body=body))


class TenantDetail(ApiView):
    """The view that returns, changes and deletes a tenant."""

    @Endpoint(
        id="getTenant",
        summary="Read a tenant",
        tag=_TAG,
        replies={200: TenantReply},
        errors=[NotFound],
        headers=[ETAG_HEADER],
    )
    def get(self, request: Request, *, name: str) -> Response:
        """Return the tenant with its ETag."""
        row = tenant_by_name(name)
        return Response(TenantReply.of(row), headers=etag_header(tenant_version(row)))

    @Endpoint(
        id="patchTenant",
        summary="Change the display name or the weight of a tenant",
        tag=_TAG,
        body=TenantPatch,
        replies=accepted(TenantOperation.UPDATE, *_TENANT),
        errors=[NotFound, PhaseConflict, StaleEtag],
        headers=[IF_MATCH_HEADER],
    )
    def patch(self, request: Request, *, name: str, body: TenantPatch) -> Response:
        """Accept a request to change the tenant. The change takes effect immediately."""
        result = tenant_update(
            tenant=caller_of(request).tenant, name=name, body=body, etag=expected_etag(request)
        )
        return accepted_reply(request, result)

    @Endpoint(
        id="deleteTenant",
        summary="Delete a tenant without objects, and its namespace",
        tag=_TAG,
        query=DeletionQuery,
        replies=accepted(TenantOperation.DELETE, *_TENANT),
        errors=[NotFound, PhaseConflict, InUse],
    )
    def delete(self, request: Request, *, name: str, query: DeletionQuery) -> Response:
        """Accept a request to delete the tenant, which is `Deleting` until it is not found."""
        result = tenant_request_deletion(
            tenant=caller_of(request).tenant, name=name, operation_id=query.operation_id
        )
        return accepted_reply(request, result)


class TenantSuspend(ApiView):
    """The view that suspends a tenant."""

    @Endpoint(
        id="suspendTenant",
        summary="Suspend a tenant: its tokens can only read, and its units are stopped",
        tag=_TAG,
        body=TenantAction,
        replies=accepted(TenantOperation.SUSPEND, *_TENANT),
        errors=[NotFound, PhaseConflict],
    )
    def post(self, request: Request, *, name: str, body: TenantAction) -> Response:
        """Suspend the tenant. The operation requests the stops of its units."""
        result = tenant_suspend(
            tenant=caller_of(request).tenant, name=name, operation_id=body.operation_id
        )
        return accepted_reply(request, result)


class TenantResume(ApiView):
    """The view that resumes a tenant."""

    @Endpoint(
        id="resumeTenant",
        summary="Resume a tenant. Stopped units remain stopped",
        tag=_TAG,
        body=TenantAction,
        replies=accepted(TenantOperation.RESUME, *_TENANT),
        errors=[NotFound, PhaseConflict],
    )
    def post(self, request: Request, *, name: str, body: TenantAction) -> Response:
        """Resume the tenant. Its requests in the capacity queue are eligible again."""
        result = tenant_resume(
            tenant=caller_of(request).tenant, name=name, operation_id=body.operation_id
        )
        return accepted_reply(request, result)
