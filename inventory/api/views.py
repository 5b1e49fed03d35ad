"""Views of the stock pool and GPU spec routes."""

from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform.api.endpoint import Endpoint
from gpuplatform.api.etags import ETAG_HEADER, IF_MATCH_HEADER, etag_header, expected_etag
from gpuplatform.api.pagination import WithoutTemplate, mapped, paginate, paginate_light
from gpuplatform.api.query import DeletionQuery
from gpuplatform.api.views import ApiView
from gpuplatform.errors import NameConflict, NotFound, PhaseConflict, StaleEtag
from gpuplatform.operations.api.replies import accepted, accepted_reply
from gpuplatform.operations.selectors import OPERATION_UNREAD
from gpuplatform.operations.versions import version_of
from gpuplatform.tenancy.callers import caller_of
from inventory.api.filters import DeletePoolQuery, PoolQuery, PoolsQuery, SpecsQuery
from inventory.api.serializers import GpuSpecReply, StockPoolReply, pool_replies, spec_replies
from inventory.requests.catalogue import GpuSpecCreate, GpuSpecPatch
from inventory.requests.pools import StockPoolCreate, StockPoolPatch
from inventory.selectors import pool_get, pools_live, spec_get, specs_all
from inventory.services.catalogue import (
    SpecOperation,
    gpu_spec_create,
    gpu_spec_delete,
    gpu_spec_update,
    spec_version,
)
from inventory.services.pools import (
    PoolOperation,
    pool_create,
    pool_request_deletion,
    pool_update,
)

_POOLS = "Stock pools"
_SPECS = "GPU specs"
_POOL = ("StockPool", "h100")
_SPEC = ("GPUSpec", "h100-2g")


class StockPools(ApiView):
    """The view that lists and creates stock pools."""

    @Endpoint(
        id="listStockPools",
        summary="List stock pools, newest first",
        tag=_POOLS,
        query=PoolsQuery,
        replies={200: StockPoolReply},
    )
    def get(self, request: Request, *, query: PoolsQuery) -> Response:
        """Return one page of stock pools."""
        page = paginate_light(
            query.applied_to(pools_live()),
            query,
            "spec",
            WithoutTemplate("spec"),
            *OPERATION_UNREAD,
        )
        replies = pool_replies(page.rows)
        return Response(mapped(page, [reply.without("template") for reply in replies]))

    @Endpoint(
        id="createStockPool",
        summary="Create a stock pool",
        tag=_POOLS,
        body=StockPoolCreate,
        replies=accepted(PoolOperation.CREATE, *_POOL, namespace="default"),
        errors=[NameConflict],
    )
    def post(self, request: Request, *, body: StockPoolCreate) -> Response:
        """Accept a request to create a stock pool.

        The stock pool is `Pending` until its resource exists.
        """
        return accepted_reply(request, pool_create(tenant=caller_of(request).tenant, body=body))


class StockPoolDetail(ApiView):
    """The view that returns, changes and deletes a stock pool."""

    @Endpoint(
        id="getStockPool",
        summary="Read a stock pool",
        tag=_POOLS,
        query=PoolQuery,
        replies={200: StockPoolReply},
        errors=[NotFound],
        headers=[ETAG_HEADER],
    )
    def get(self, request: Request, *, name: str, query: PoolQuery) -> Response:
        """Return the stock pool with its ETag."""
        pool = pool_get(query.namespace, name)
        etag = version_of(pool.uid, pool.generation)
        [reply] = pool_replies([pool])
        return Response(reply, headers=etag_header(etag))

    @Endpoint(
        id="patchStockPool",
        summary="Change the replicas, the image or the template of a stock pool",
        tag=_POOLS,
        body=StockPoolPatch,
        query=PoolQuery,
        replies=accepted(PoolOperation.UPDATE, *_POOL, namespace="default"),
        errors=[NotFound, PhaseConflict, StaleEtag],
        headers=[IF_MATCH_HEADER],
    )
    def patch(
        self, request: Request, *, name: str, body: StockPoolPatch, query: PoolQuery
    ) -> Response:
        """Accept a request to change the stock pool. Omitted fields are unchanged."""
        result = pool_update(
            tenant=caller_of(request).tenant,
            namespace=query.namespace,
            name=name,
            body=body,
            etag=expected_etag(request),
        )
        return accepted_reply(request, result)

    @Endpoint(
        id="deleteStockPool",
        summary="Delete a stock pool",
        tag=_POOLS,
        query=DeletePoolQuery,
        replies=accepted(PoolOperation.DELETE, *_POOL, namespace="default"),
        errors=[NotFound],
    )
    def delete(self, request: Request, *, name: str, query: DeletePoolQuery) -> Response:
        """Accept a request to delete the stock pool.

        The stock pool is `Terminating` until its pods are deleted.
        """
        result = pool_request_deletion(
            tenant=caller_of(request).tenant,
            operation_id=query.operation_id,
            namespace=query.namespace,
            name=name,
        )
        return accepted_reply(request, result)


class GpuSpecs(ApiView):
    """The view that lists and creates GPU specs."""

    @Endpoint(
        id="listGpuSpecs",
        summary="List the GPU specs of the catalogue, newest first",
        tag=_SPECS,
        query=SpecsQuery,
        replies={200: GpuSpecReply},
    )
    def get(self, request: Request, *, query: SpecsQuery) -> Response:
        """Return one page of GPU specs."""
        page = paginate(query.applied_to(specs_all()), query)
        return Response(mapped(page, spec_replies(page.rows)))

    @Endpoint(
        id="createGpuSpec",
        summary="Add a GPU spec to the catalogue",
        tag=_SPECS,
        body=GpuSpecCreate,
        replies=accepted(SpecOperation.CREATE, *_SPEC),
        errors=[NameConflict],
    )
    def post(self, request: Request, *, body: GpuSpecCreate) -> Response:
        """Accept a request to create a GPU spec, which can be used immediately."""
        result = gpu_spec_create(tenant=caller_of(request).tenant, body=body)
        return accepted_reply(request, result)


class GpuSpecDetail(ApiView):
    """The view that returns, changes and deletes a GPU spec."""

    @Endpoint(
        id="getGpuSpec",
        summary="Read a GPU spec",
        tag=_SPECS,
        replies={200: GpuSpecReply},
        errors=[NotFound],
        headers=[ETAG_HEADER],
    )
    def get(self, request: Request, *, name: str) -> Response:
        """Return the GPU spec with its ETag."""
        row = spec_get(name)
        [reply] = spec_replies([row])
        return Response(reply, headers=etag_header(spec_version(row)))

    @Endpoint(
        id="patchGpuSpec",
        summary="Change a GPU spec without affecting existing stock and units",
        tag=_SPECS,
        body=GpuSpecPatch,
        replies=accepted(SpecOperation.UPDATE, *_SPEC),
        errors=[NotFound, StaleEtag],
        headers=[IF_MATCH_HEADER],
    )
    def patch(self, request: Request, *, name: str, body: GpuSpecPatch) -> Response:
        """Accept a request to change the GPU spec. The change takes effect immediately."""
        result = gpu_spec_update(
            tenant=caller_of(request).tenant, name=name, body=body, etag=expected_etag(request)
        )
        return accepted_reply(request, result)

    @Endpoint(
        id="deleteGpuSpec",
        summary="Delete a disabled GPU spec from the catalogue",
        tag=_SPECS,
        query=DeletionQuery,
        replies=accepted(SpecOperation.DELETE, *_SPEC),
        errors=[NotFound, PhaseConflict],
    )
    def delete(self, request: Request, *, name: str, query: DeletionQuery) -> Response:
        """Accept a request to delete the GPU spec. The deletion takes effect immediately."""
        result = gpu_spec_delete(
            tenant=caller_of(request).tenant, name=name, operation_id=query.operation_id
        )
        return accepted_reply(request, result)
