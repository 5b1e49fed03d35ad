"""Views of the limits of tenants."""

from typing import Final

from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform.api.endpoint import Endpoint
from gpuplatform.api.etags import ETAG_HEADER, IF_MATCH_HEADER, etag_header, expected_etag
from gpuplatform.api.schema import Reply
from gpuplatform.api.views import ApiView
from gpuplatform.errors import NotFound, StaleEtag
from gpuplatform.operations.api.replies import accepted, accepted_reply
from gpuplatform.quotas.selectors import tenant_state
from gpuplatform.quotas.services import (
    LIMITS_KIND,
    TENANT_KIND,
    limits_version,
    tenant_limits_put,
)
from gpuplatform.tenancy.callers import caller_of
from gpuplatform.tenancy.requests import TenantLimitsBody
from gpuplatform.tenancy.selectors import tenant_by_name

_TAG: Final = "Tenants"


class TenantStateReply(Reply):
    """The limits of a tenant and what it uses, by resource."""

    name: str = Field(description="Name of the tenant.", examples=["default"])
    limits: dict[str, int] = Field(description="Limits.", examples=[{"gpus": 8}])
    used: dict[str, int] = Field(description="Numbers in use.", examples=[{"gpus": 6}])
    releasing: dict[str, int] = Field(
        description="Parts of `used` that are being released.", examples=[{"gpus": 2}]
    )


class TenantLimits(ApiView):
    """The view of the limits of a tenant, for operators."""

    @Endpoint(
        id="getTenantLimits",
        summary="Read the limits of a tenant and what it uses",
        tag=_TAG,
        replies={200: TenantStateReply},
        headers=[ETAG_HEADER],
        errors=[NotFound],
    )
    def get(self, request: Request, *, name: str) -> Response:
        """Return the limits of the tenant and what it uses."""
        state = tenant_state(tenant_by_name(name))
        headers = etag_header(limits_version(state.limits))
        return Response(TenantStateReply.model_validate(state), headers=headers)

    @Endpoint(
        id="setTenantLimits",
        summary="Replace all limits of a tenant without stopping anything",
        tag=_TAG,
        body=TenantLimitsBody,
        replies=accepted(LIMITS_KIND, TENANT_KIND, "default"),
        headers=[IF_MATCH_HEADER],
        errors=[NotFound, StaleEtag],
    )
    def put(self, request: Request, *, name: str, body: TenantLimitsBody) -> Response:
        """Accept a request to replace the limits. The operation belongs to the tenant."""
        tenant = tenant_by_name(name)
        result = tenant_limits_put(tenant=tenant, body=body, etag=expected_etag(request))
        return accepted_reply(request, result, of_tenant=True)


class OwnTenant(ApiView):
    """The view of the tenant of the caller."""

    @Endpoint(
        id="getOwnTenant",
        summary="Read the limits of the caller's tenant and what it uses",
        tag=_TAG,
        replies={200: TenantStateReply},
    )
    def get(self, request: Request) -> Response:
        """Return the limits of the caller's tenant and what it uses."""
        state = tenant_state(caller_of(request).tenant)
        return Response(TenantStateReply.model_validate(state))
