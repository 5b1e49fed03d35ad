"""Authentication by API token, and the permission that every API view has.

Source: RFC 6750, "The OAuth 2.0 Authorization Framework: Bearer Token Usage", section 2.1.
"""

from typing import TYPE_CHECKING

from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from typing_extensions import override

from gpuplatform.errors import NotAllowed, Unauthenticated
from gpuplatform.tenancy.actor import set_actor
from gpuplatform.tenancy.callers import Caller, may_be_anybody, scope_of
from gpuplatform.tenancy.models import Scope
from gpuplatform.tenancy.services import token_used

if TYPE_CHECKING:
    # DRF's views read the settings that name this module, so they cannot be imported from here.
    from rest_framework.views import APIView


class TokenAuthentication(BaseAuthentication):
    """Reads `Authorization: Bearer <token>` into a `Caller`.

    There is none by session: a browser that is logged in to the admin must not be able to be made
    to call the API, and without sessions there is no CSRF to guard against.
    """

    @override
    def authenticate(self, request: Request) -> tuple[None, Caller] | None:
        """Return the caller; None when nothing says who it is.

        Raises:
            Unauthenticated: a token was sent that is unknown, expired or revoked.
        """
        header = get_authorization_header(request)
        if not header:
            return self._anybody(request)
        scheme, _, secret = header.partition(b" ")
        if scheme.lower() != b"bearer" or not secret.strip():
            raise Unauthenticated("Send the token as 'Authorization: Bearer <token>'.")
        token = token_used(secret.strip().decode("latin-1"))
        if token is None:
            raise Unauthenticated("The API token is unknown, expired or revoked.")
        return None, Caller(frozenset(token.scopes), token)

    def _anybody(self, request: Request) -> tuple[None, Caller] | None:
        if not may_be_anybody(request.META.get("REMOTE_ADDR", "")):
            return None
        return None, Caller(frozenset(Scope.values), None)

    @override
    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class ScopePermission(BasePermission):
    """Lets nobody in who is not known, and everybody only where a scope leads."""

    @override
    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Let the caller pass.

        Raises:
            Unauthenticated: nobody is known to be calling.
            NotAllowed: the token has not the scope of this address.
        """
        caller = request.auth
        if not isinstance(caller, Caller):
            raise Unauthenticated(str(Unauthenticated.example()))
        scope = scope_of(request.path_info)
        if scope not in caller.scopes:
            msg = f"This address takes a token with the scope '{scope}'."
            raise NotAllowed(msg)
        set_actor(caller.words)
        return True
