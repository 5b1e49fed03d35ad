"""Routes of the stock pools and the catalogue."""

from typing import Literal

from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform.api.endpoint import Endpoint
from gpuplatform.api.pagination import mapped, paginate
from gpuplatform.api.query import DeletionQuery, PageQuery, Query
from gpuplatform.api.views import ApiView
from gpuplatform.errors import NameConflict, NotFound, PhaseConflict
from gpuplatform.operations.api.replies import accepted_reply
from gpuplatform.operations.api.serializers import OperationReply
from gpuplatform.tenancy.callers import caller_of
from inventory.api.serializers import GpuSpecReply, StockPoolReply
from inventory.phases import PoolPhase
from inventory.requests.catalogue import GpuSpecCreate, GpuSpecPatch
from inventory.requests.pools import DEFAULT_NAMESPACE, Namespace, StockPoolCreate, StockPoolPatch
from inventory.selectors import pool_get, pools_live, spec_get, specs_all
from inventory.services.catalogue import gpu_spec_create, gpu_spec_delete, gpu_spec_update
from inventory.services.pools import pool_create, pool_request_deletion, pool_update

_TAG = "Stock pools"
_SPECS = "GPU specs"
_ACCEPTED = {202: OperationReply, 200: OperationReply}


class PoolsQuery(PageQuery):
    """Filters of the list of pools."""

    namespace: Namespace | None = Field(default=None, description="Only this namespace.")
    phase: PoolPhase | None = Field(default=None, description="Only this phase.")
    reason: str | None = Field(default=None, max_length=64, description="Only this reason.")
    spec_name: str | None = Field(
        default=None, alias="specName", max_length=63, description="Only this GPU spec."
    )
    search: str | None = Field(
        default=None, max_length=63, description="Only pools whose name has this in it."
    )


class PoolQuery(Query):
    """Where a pool is."""

    namespace: Namespace = Field(
        default=DEFAULT_NAMESPACE, description="The namespace of the pool."
    )


class DeletePoolQuery(PoolQuery, DeletionQuery):
    """Which pool is deleted."""


class StockPools(ApiView):
    """All stock pools."""

    @Endpoint(
        id="listStockPools",
        summary="List stock pools, newest first",
        tag=_TAG,
        query=PoolsQuery,
        replies={200: StockPoolReply},
    )
    def get(self, request: Request, *, query: PoolsQuery) -> Response:
        """Return one page of pools."""
        wanted = {
            "namespace": query.namespace,
            "phase": query.phase,
            "reason": query.reason,
            "spec_name": query.spec_name,
            "name__contains": query.search,
        }
        rows = pools_live().filter(**{key: value for key, value in wanted.items() if value})
        page = paginate(rows, query)
        return Response(mapped(page, [StockPoolReply.of(row) for row in page.rows]))

    @Endpoint(
        id="createStockPool",
        summary="Create a stock pool",
        tag=_TAG,
        body=StockPoolCreate,
        replies=_ACCEPTED,
        errors=[NameConflict],
    )
    def post(self, request: Request, *, body: StockPoolCreate) -> Response:
        """Accept the creation; the pool is there at once as `Pending`."""
        return accepted_reply(request, pool_create(tenant=caller_of(request).tenant, body=body))


class StockPoolDetail(ApiView):
    """One stock pool."""

    @Endpoint(
        id="getStockPool",
        summary="Read one stock pool",
        tag=_TAG,
        query=PoolQuery,
        replies={200: StockPoolReply},
        errors=[NotFound],
    )
    def get(self, request: Request, *, name: str, query: PoolQuery) -> Response:
        """Return the pool as it is."""
        return Response(StockPoolReply.of(pool_get(query.namespace, name)))

    @Endpoint(
        id="patchStockPool",
        summary="Change replicas, image or template of a stock pool",
        tag=_TAG,
        body=StockPoolPatch,
        query=PoolQuery,
        replies=_ACCEPTED,
        errors=[NotFound, PhaseConflict],
    )
    def patch(
        self, request: Request, *, name: str, body: StockPoolPatch, query: PoolQuery
    ) -> Response:
        """Accept the change."""
        accepted = pool_update(
            tenant=caller_of(request).tenant, namespace=query.namespace, name=name, body=body
        )
        return accepted_reply(request, accepted)

    @Endpoint(
        id="deleteStockPool",
        summary="Delete a stock pool",
        tag=_TAG,
        query=DeletePoolQuery,
        replies=_ACCEPTED,
        errors=[NotFound],
    )
    def delete(self, request: Request, *, name: str, query: DeletePoolQuery) -> Response:
        """Accept the deletion; the pool shows `Terminating`, then it is gone."""
        accepted = pool_request_deletion(
            tenant=caller_of(request).tenant,
            operation_id=query.operation_id,
            namespace=query.namespace,
            name=name,
        )
        return accepted_reply(request, accepted)


class SpecsQuery(PageQuery):
    """Filters of the catalogue."""

    search: str | None = Field(
        default=None, max_length=63, description="Only specs whose name has this in it."
    )
    enabled: Literal["true", "false"] | None = Field(
        default=None, description="Only those that are enabled, or only those that are not."
    )


class GpuSpecs(ApiView):
    """The catalogue."""

    @Endpoint(
        id="listGpuSpecs",
        summary="List the catalogue of GPU specs, newest first",
        tag=_SPECS,
        query=SpecsQuery,
        replies={200: GpuSpecReply},
    )
    def get(self, request: Request, *, query: SpecsQuery) -> Response:
        """Return one page of specs."""
        rows = specs_all()
        if query.search:
            rows = rows.filter(name__contains=query.search)
        if query.enabled:
            rows = rows.filter(is_enabled=query.enabled == "true")
        page = paginate(rows, query)
        return Response(mapped(page, [GpuSpecReply.of(row) for row in page.rows]))

    @Endpoint(
        id="createGpuSpec",
        summary="Enter a GPU spec into the catalogue",
        tag=_SPECS,
        body=GpuSpecCreate,
        replies=_ACCEPTED,
        errors=[NameConflict],
    )
    def post(self, request: Request, *, body: GpuSpecCreate) -> Response:
        """Accept the entry; it is there at once."""
        accepted = gpu_spec_create(tenant=caller_of(request).tenant, body=body)
        return accepted_reply(request, accepted)


class GpuSpecDetail(ApiView):
    """One GPU spec."""

    @Endpoint(
        id="getGpuSpec",
        summary="Read one GPU spec",
        tag=_SPECS,
        replies={200: GpuSpecReply},
        errors=[NotFound],
    )
    def get(self, request: Request, *, name: str) -> Response:
        """Return the spec."""
        return Response(GpuSpecReply.of(spec_get(name)))

    @Endpoint(
        id="patchGpuSpec",
        summary="Change a GPU spec; what runs and what is in stock stays as it is",
        tag=_SPECS,
        body=GpuSpecPatch,
        replies=_ACCEPTED,
        errors=[NotFound],
    )
    def patch(self, request: Request, *, name: str, body: GpuSpecPatch) -> Response:
        """Accept the change; it holds at once."""
        accepted = gpu_spec_update(tenant=caller_of(request).tenant, name=name, body=body)
        return accepted_reply(request, accepted)

    @Endpoint(
        id="deleteGpuSpec",
        summary="Remove a disabled GPU spec from the catalogue",
        tag=_SPECS,
        query=DeletionQuery,
        replies=_ACCEPTED,
        errors=[NotFound, PhaseConflict],
    )
    def delete(self, request: Request, *, name: str, query: DeletionQuery) -> Response:
        """Accept the removal."""
        accepted = gpu_spec_delete(
            tenant=caller_of(request).tenant, name=name, operation_id=query.operation_id
        )
        return accepted_reply(request, accepted)
