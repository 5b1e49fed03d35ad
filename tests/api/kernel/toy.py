"""A small API for tests of gpuplatform.api without any app."""

from django.contrib import admin
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import include, path, register_converter
from django.views.decorators.http import require_GET
from pydantic import Field
from rest_framework import exceptions as drf
from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform import errors
from gpuplatform.api.converters import CONVERTERS
from gpuplatform.api.endpoint import Endpoint
from gpuplatform.api.pagination import Page
from gpuplatform.api.query import PageQuery
from gpuplatform.api.schema import Reply
from gpuplatform.api.views import ApiView
from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.tenancy.permissions import Method, Permission
from inventory.requests.pools import StockPoolCreate

for name, converter in CONVERTERS.items():
    register_converter(converter, f"toy{name}")

RAISED: dict[str, Exception] = {
    "known": errors.NameConflict.example(),
    "waiting": errors.OperatorUnavailable.example(),
    "cluster": ClusterUnavailable("The cluster does not answer.", retry_after=0.2),
    "http404": Http404("secret"),
    "denied": PermissionDenied("secret"),
    "suspicious": SuspiciousOperation("secret"),
    "database": OperationalError("secret"),
    "interface": InterfaceError("secret"),
    "parse": drf.ParseError("secret"),
    "throttled": drf.Throttled(wait=3),
    "bug": ZeroDivisionError("secret"),
    "recursion": RecursionError("secret"),
}


class ToyReply(Reply):
    """The response of the toy API."""

    name: str = Field(examples=["a"])
    operation_id: str | None = Field(default=None, examples=["op-1"])


class Things(ApiView):
    """A list route and a create route."""

    @Endpoint(id="listThings", summary="List", tag="Toy", replies={200: ToyReply}, query=PageQuery)
    def get(self, _request: Request, *, query: PageQuery) -> Response:
        """Return the requested number of rows."""
        rows = [ToyReply(name=str(n)) for n in range(query.limit)]
        return Response(Page(rows, range(query.limit, 0, -1), has_more=True))

    @Endpoint(
        id="createThing",
        summary="Create",
        tag="Toy",
        body=StockPoolCreate,
        replies={202: ToyReply, 200: ToyReply},
        errors=[errors.NameConflict],
    )
    def post(self, _request: Request, *, body: StockPoolCreate) -> Response:
        """Echo."""
        reply = ToyReply(name=body.name or "none", operation_id=body.operation_id)
        return Response(reply, status=202)


class Raising(ApiView):
    """Raises the exception that the path names."""

    @Endpoint(
        id="raise", summary="Raise", tag="Toy", replies={200: ToyReply}, errors=[errors.NotFound]
    )
    def get(self, _request: Request, *, which: str) -> Response:
        """Raise."""
        raise RAISED[which]


def plain(_request: HttpRequest, which: str) -> HttpResponse:
    """Raise an exception outside of DRF."""
    raise RAISED[which]


@require_GET
def readable(_request: HttpRequest) -> HttpResponse:
    """Accept only GET. Django rejects other methods."""
    return HttpResponse("ok")


TOY_PERMISSIONS = {
    "things": {Method.GET: Permission.READ, Method.POST: Permission.WRITE},
    "raise": {Method.GET: Permission.READ},
}

urlpatterns = [
    path("api/v1/things", Things.as_view(), name="things"),
    path("api/v1/raise/<toyname:which>", Raising.as_view(), name="raise"),
    path("api/v1/plain/<str:which>", plain),
    path("api/v1/readable", readable),
    path("elsewhere/<str:which>", plain),
    path("admin/", admin.site.urls),
    path("", include("gpuplatform.api.urls")),
]
