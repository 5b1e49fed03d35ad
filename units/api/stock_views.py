"""Views of the stock and inventory routes."""

from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform.api.endpoint import Endpoint
from gpuplatform.api.pagination import WithoutTemplate, mapped, paginate_light
from gpuplatform.api.query import DeletionQuery
from gpuplatform.api.views import ApiView
from gpuplatform.errors import InsufficientCapacity, NameConflict, NotFound, PhaseConflict
from gpuplatform.operations.api.replies import accepted, accepted_reply
from gpuplatform.operations.api.serializers import STOCK_ADDRESS
from gpuplatform.tenancy.callers import caller_of
from units.api.capacity import CapacityReply
from units.api.filters import DeleteStockQuery, StockQuery
from units.api.stock_serializers import StockUnitReply
from units.capacity import capacity
from units.phases import STOCK_NAMESPACE
from units.requests import StockSeed
from units.selectors import stock_get, stock_newest
from units.services.names import UNIT_KIND, UnitOperation
from units.services.stock import stock_remove, stock_remove_one, stock_seed

_TAG = "Stock"
_BATCH = "stock-h100-1g-0123456789abcdef"
_NAME = f"{_BATCH}-001"


class StockUnits(ApiView):
    """The view that lists, seeds and removes stock units."""

    @Endpoint(
        id="listStockUnits",
        summary="List stock units, newest first",
        tag=_TAG,
        query=StockQuery,
        replies={200: StockUnitReply},
    )
    def get(self, request: Request, *, query: StockQuery) -> Response:
        """Return one page of stock units."""
        page = paginate_light(
            query.stock(),
            query,
            "spec",
            WithoutTemplate("spec"),
            "operation__payload",
            "claimed_by__payload",
        )
        return Response(mapped(page, [StockUnitReply.of(row) for row in page.rows]))

    @Endpoint(
        id="seedStockUnits",
        summary="Seed a number of stock units of a GPU spec",
        tag=_TAG,
        body=StockSeed,
        replies=accepted(
            UnitOperation.SEED,
            UNIT_KIND,
            _BATCH,
            namespace=STOCK_NAMESPACE,
            href=f"{STOCK_ADDRESS}?search={_BATCH}",
            total=2,
        ),
        errors=[PhaseConflict, NameConflict],
    )
    def post(self, request: Request, *, body: StockSeed) -> Response:
        """Accept a request to seed stock units.

        The progress of the operation is the number of created stock units.
        """
        return accepted_reply(request, stock_seed(tenant=caller_of(request).tenant, body=body))

    @Endpoint(
        id="removeStockUnits",
        summary="Remove an exact number of ready, unclaimed stock units",
        tag=_TAG,
        query=DeleteStockQuery,
        replies=accepted(
            UnitOperation.REMOVE,
            UNIT_KIND,
            _BATCH,
            namespace=STOCK_NAMESPACE,
            href=f"{STOCK_ADDRESS}?specName=h100-1g",
        ),
        errors=[InsufficientCapacity],
    )
    def delete(self, request: Request, *, query: DeleteStockQuery) -> Response:
        """Accept a request to remove stock units."""
        result = stock_remove(
            tenant=caller_of(request).tenant,
            operation_id=query.operation_id,
            spec_name=query.spec_name,
            number=query.number,
        )
        return accepted_reply(request, result)


class StockUnitDetail(ApiView):
    """The view that returns and removes a stock unit."""

    @Endpoint(
        id="getStockUnit",
        summary="Read a stock unit",
        tag=_TAG,
        replies={200: StockUnitReply},
        errors=[NotFound],
    )
    def get(self, request: Request, *, name: str) -> Response:
        """Return a stock unit that no unit has consumed."""
        return Response(StockUnitReply.of(stock_get(name)))

    @Endpoint(
        id="removeStockUnit",
        summary="Remove an unclaimed stock unit in any state",
        tag=_TAG,
        query=DeletionQuery,
        replies=accepted(
            UnitOperation.REMOVE,
            UNIT_KIND,
            _BATCH,
            namespace=STOCK_NAMESPACE,
            href=f"{STOCK_ADDRESS}/{_NAME}",
        ),
        errors=[NotFound, PhaseConflict],
    )
    def delete(self, request: Request, *, name: str, query: DeletionQuery) -> Response:
        """Accept a request to remove the stock unit."""
        result = stock_remove_one(
            tenant=caller_of(request).tenant,
            operation_id=query.operation_id,
            stock=stock_newest(name),
        )
        return accepted_reply(request, result)


class Inventory(ApiView):
    """The view that returns the capacity and its use."""

    @Endpoint(
        id="getInventory",
        summary="Read the capacity by GPU product and by GPU spec",
        tag=_TAG,
        replies={200: CapacityReply},
    )
    def get(self, request: Request) -> Response:
        """Return the current capacity."""
        return Response(CapacityReply.of(capacity()))
