"""Views of members, of tokens and of the caller."""

from typing import Final

from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform.access.api.serializers import (
    MemberReply,
    MeReply,
    TokenReply,
)
from gpuplatform.access.requests import MemberBody, TokenCreate
from gpuplatform.access.selectors import members_of, visible_tokens
from gpuplatform.access.services import (
    MEMBER_KIND,
    AccessOperation,
    member_put,
    member_remove,
    token_issue,
    token_withdraw,
)
from gpuplatform.api.endpoint import Endpoint, Sample
from gpuplatform.api.pagination import mapped, paginate
from gpuplatform.api.parameters import response_header
from gpuplatform.api.query import DeletionQuery, PageQuery
from gpuplatform.api.views import ApiView
from gpuplatform.errors import NameConflict, NotFound
from gpuplatform.operations.api.replies import accepted, accepted_reply
from gpuplatform.tenancy.callers import caller_of
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.selectors import tenant_by_name

_TAG: Final = "Members and tokens"
_MEMBER: Final = (MEMBER_KIND, "ada")
_CHANGED = accepted(AccessOperation.UPDATE_MEMBER, *_MEMBER, namespace="runtime-instance")
_DELETED = accepted(AccessOperation.DELETE_MEMBER, *_MEMBER, namespace="runtime-instance")


class Me(ApiView):
    """The view that returns the caller."""

    @Endpoint(
        id="getMe",
        summary="Read your tenant, role and permissions",
        tag=_TAG,
        replies={200: MeReply},
    )
    def get(self, request: Request) -> Response:
        """Return the caller, with the permissions that its requests have now."""
        return Response(MeReply.of(caller_of(request)))


class Tokens(ApiView):
    """The view that lists and creates tokens of the caller's tenant."""

    @Endpoint(
        id="listTokens",
        summary="List your tokens, for admins all tokens of the tenant",
        tag=_TAG,
        query=PageQuery,
        replies={200: TokenReply},
    )
    def get(self, request: Request, *, query: PageQuery) -> Response:
        """Return one page of tokens, without their secrets."""
        page = paginate(visible_tokens(caller_of(request)), query)
        return Response(mapped(page, [TokenReply.of(row) for row in page.rows]))

    @Endpoint(
        id="createToken",
        summary="Create a token, whose secret is returned once",
        tag=_TAG,
        body=TokenCreate,
        replies={
            201: Sample(TokenReply, {"token": "gpu_0123456789"}),
            200: Sample(TokenReply, description="The token was already created."),
        },
        errors=[NameConflict, NotFound],
        headers=[response_header("Idempotent-Replayed", [200])],
    )
    def post(self, request: Request, *, body: TokenCreate) -> Response:
        """Create a token with at most the permissions of the caller.

        If the response was lost, the repeated request returns the token without its secret. Revoke
        it, and create another one.
        """
        created = token_issue(caller=caller_of(request), body=body)
        reply = TokenReply.of(created.token, created.secret)
        if created.secret is None:
            return Response(reply, headers={"Idempotent-Replayed": "true"})
        return Response(reply, status=status.HTTP_201_CREATED)


class TokenDetail(ApiView):
    """The view that revokes a token."""

    @Endpoint(
        id="deleteToken",
        summary="Revoke a token; repeating the request has no effect",
        tag=_TAG,
        replies={200: TokenReply},
        errors=[NotFound],
    )
    def delete(self, request: Request, *, token: str) -> Response:
        """Revoke the token immediately."""
        return Response(TokenReply.of(token_withdraw(caller=caller_of(request), name=token)))


class Members(ApiView):
    """The view that lists the members of the caller's tenant."""

    @Endpoint(
        id="listMembers",
        summary="List the members of your tenant",
        tag=_TAG,
        query=PageQuery,
        replies={200: MemberReply},
    )
    def get(self, request: Request, *, query: PageQuery) -> Response:
        """Return one page of members."""
        return _page(caller_of(request).tenant, query)


class MemberDetail(ApiView):
    """The view that sets and deletes members of the caller's tenant."""

    @Endpoint(
        id="putMember",
        summary="Set the role of a member",
        tag=_TAG,
        body=MemberBody,
        replies=_CHANGED,
        errors=[NotFound],
    )
    def put(self, request: Request, *, member: str, body: MemberBody) -> Response:
        """Set the role of a user, or of a group of the identity provider."""
        tenant = caller_of(request).tenant
        return _put(request, tenant, member, body)

    @Endpoint(
        id="deleteMember",
        summary="Delete a member",
        tag=_TAG,
        query=DeletionQuery,
        replies=_DELETED,
        errors=[NotFound],
    )
    def delete(self, request: Request, *, member: str, query: DeletionQuery) -> Response:
        """Delete the member, whose tokens lose their permissions."""
        return _delete(request, caller_of(request).tenant, member, query)


class TenantMembers(ApiView):
    """The view that lists the members of any tenant."""

    @Endpoint(
        id="listTenantMembers",
        summary="List the members of a tenant",
        tag=_TAG,
        query=PageQuery,
        replies={200: MemberReply},
        errors=[NotFound],
    )
    def get(self, _request: Request, *, tenant: str, query: PageQuery) -> Response:
        """Return one page of members."""
        return _page(tenant_by_name(tenant), query)


class TenantMemberDetail(ApiView):
    """The view that sets and deletes members of any tenant."""

    @Endpoint(
        id="putTenantMember",
        summary="Set the role of a member of a tenant",
        tag=_TAG,
        body=MemberBody,
        replies=_CHANGED,
        errors=[NotFound],
    )
    def put(self, request: Request, *, tenant: str, member: str, body: MemberBody) -> Response:
        """Set the role of a user, or of a group of the identity provider."""
        return _put(request, tenant_by_name(tenant), member, body)

    @Endpoint(
        id="deleteTenantMember",
        summary="Delete a member of a tenant",
        tag=_TAG,
        query=DeletionQuery,
        replies=_DELETED,
        errors=[NotFound],
    )
    def delete(
        self, request: Request, *, tenant: str, member: str, query: DeletionQuery
    ) -> Response:
        """Delete the member, whose tokens lose their permissions."""
        return _delete(request, tenant_by_name(tenant), member, query)


def _page(tenant: Tenant, query: PageQuery) -> Response:
    page = paginate(members_of(tenant), query)
    return Response(mapped(page, [MemberReply.of(row) for row in page.rows]))


def _put(request: Request, tenant: Tenant, name: str, body: MemberBody) -> Response:
    asked_in = caller_of(request).tenant
    result = member_put(asked_in=asked_in, tenant=tenant, name=name, body=body)
    return accepted_reply(request, result)


def _delete(request: Request, tenant: Tenant, name: str, query: DeletionQuery) -> Response:
    asked_in, operation_id = caller_of(request).tenant, query.operation_id
    result = member_remove(asked_in=asked_in, tenant=tenant, name=name, operation_id=operation_id)
    return accepted_reply(request, result)
