"""The root of the API, with links to its lists and documents."""

from typing import Final

from django.urls import reverse
from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform import __version__
from gpuplatform.api.endpoint import Endpoint
from gpuplatform.api.schema import Reply
from gpuplatform.api.views import ApiView

_LINKS: Final = {
    "health": "health",
    "gpuUnits": "gpu-units",
    "unitGroups": "unit-groups",
    "availableGpuSpecs": "available-gpu-specs",
    "operations": "operations",
    "tenant": "own-tenant",
    "usage": "usage",
    "usageRecords": "usage-records",
    "me": "me",
    "tokens": "tokens",
    "members": "members",
    "functions": "functions",
    "invocations": "invocations",
    "inventory": "inventory",
    "stockPools": "stockpools",
    "stockUnits": "stock-units",
    "gpuSpecs": "gpu-specs",
    "jobs": "jobs",
    "tenants": "tenants",
    "tenantsUsage": "operator-usage",
    "tenantsUsageRecords": "operator-usage-records",
    "audit": "operator-audit",
    "auditEntries": "operator-audit-entries",
    "nodes": "nodes",
    "queue": "capacity-queue",
    "schema": "schema",
}
"""Names of the routes by their keys in the response."""


class RootReply(Reply):
    """The version of the platform and the links of the API."""

    version: str = Field(description="Version of the platform.", examples=[__version__])
    links: dict[str, str] = Field(
        description="URLs of the lists and documents of the API, by name.",
        examples=[{"gpuUnits": "/api/v1/gpu-units", "health": "/api/v1/health"}],
    )


class ApiRoot(ApiView):
    """The root of the API."""

    @Endpoint(
        id="getRoot",
        summary="Read the version and the links of the API",
        tag="Platform",
        replies={200: RootReply},
    )
    def get(self, _request: Request) -> Response:
        """Return the version of the platform and the links of the API."""
        links = {key: reverse(name) for key, name in _LINKS.items()}
        return Response(RootReply(version=__version__, links=links))
