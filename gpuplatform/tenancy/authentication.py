"""Authentication with API tokens, and the permission class of all API views.

Source: RFC 6750, "The OAuth 2.0 Authorization Framework: Bearer Token Usage", section 2.1.
"""

from typing import TYPE_CHECKING

from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from typing_extensions import override

from gpuplatform.api.request_log import TENANT_KEY
from gpuplatform.errors import NotAllowed, Unauthenticated
from gpuplatform.postgresql.tenant_rows import restrict_rows
from gpuplatform.tenancy.actor import set_actor
from gpuplatform.tenancy.callers import Caller, is_for_operators, needed_of, needs_no_token
from gpuplatform.tenancy.permissions import Permission
from gpuplatform.tenancy.phases import TenantPhase
from gpuplatform.tenancy.selectors import tenant_suspended, token_permissions
from gpuplatform.tenancy.services import token_used

if TYPE_CHECKING:
    # DRF's views read the settings that name this module, so they cannot be imported from here.
    from rest_framework.views import APIView


class TokenAuthentication(BaseAuthentication):
    """The authentication of requests with `Authorization: Bearer <token>`.

    Sessions of the admin are not accepted, so the API requires no CSRF protection.
    """

    @override
    def authenticate(self, request: Request) -> tuple[None, Caller] | None:
        """Return the caller, or `None` if the request lacks a required token or needs none.

        The token of a public request is not read, so that it works without the database.

        Raises:
            Unauthenticated: If the token is malformed, unknown, expired or revoked.
        """
        return None if Permission.PUBLIC in needed_of(request) else self.identify(request)

    def identify(self, request: Request) -> tuple[None, Caller] | None:
        """Return the caller of a request, even of a public one.

        Raises:
            Unauthenticated: If the token is malformed, unknown, expired or revoked.
        """
        header = get_authorization_header(request)
        if not header:
            return self._without_token(request)
        scheme, _, secret = header.partition(b" ")
        if scheme.lower() != b"bearer" or not secret.strip():
            raise Unauthenticated(
                "The Authorization header is malformed. Send 'Authorization: Bearer <token>'."
            )
        token = token_used(secret.strip().decode("latin-1"))
        if token is None:
            raise Unauthenticated(
                "The API token is unknown, expired or revoked. Send a valid token."
            )
        return None, Caller(token_permissions(token), token)

    def _without_token(self, request: Request) -> tuple[None, Caller] | None:
        if not needs_no_token(request.META.get("REMOTE_ADDR", "")):
            return None
        return None, Caller(frozenset(Permission), None)

    @override
    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class CallerPermission(BasePermission):
    """The check that a caller has the permission that the table requires for the route."""

    @override
    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return true, and record the caller as the actor of the request.

        From then on, the database shows a request to a route of tenants only the rows of the
        caller's tenant.

        Raises:
            Unauthenticated: If the request has no valid token and requires one.
            NotAllowed: If the token does not have a permission that the route requires.
            TenantSuspended: If a token of a tenant that is not active changes more than a token.
        """
        needed = needed_of(request)
        if Permission.PUBLIC in needed:
            return True
        caller = request.auth
        if not isinstance(caller, Caller):
            raise Unauthenticated.example()
        set_actor(caller.actor, caller.actor_kind, caller.token.pk if caller.token else "")
        if caller.token:
            request.META[TENANT_KEY] = caller.token.tenant.name
        if not needed & caller.permissions:
            names = " or ".join(f"'{permission}'" for permission in sorted(needed))
            msg = (
                f"This request requires a token with the permission {names}. Ask an admin of the"
                " tenant or an operator for one."
            )
            raise NotAllowed(msg)
        # A tenant that is not active can still revoke a token that became known to others.
        is_own = Permission.TOKEN in needed
        if request.method not in SAFE_METHODS and caller.token and not is_own:
            tenant = caller.token.tenant
            if tenant.phase != TenantPhase.ACTIVE:
                raise tenant_suspended(tenant)
        if not is_for_operators(request):
            restrict_rows(lambda: caller.tenant.pk)
        return True
