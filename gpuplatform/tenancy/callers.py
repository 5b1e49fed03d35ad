"""Callers of the API: the holder of a token or, in development mode, any local program."""

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from django.conf import settings
from rest_framework.request import Request

from gpuplatform.tenancy.models import ApiToken, Scope, Tenant
from gpuplatform.tenancy.selectors import tenant_by_name

_REPLAY: Final = re.compile("/api/v1/serverless/invocations/[^/]+/replay")
"""Replaying dead letters is for operators, although its address is among those of users."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request, and the scopes that it has."""

    scopes: frozenset[str]
    token: ApiToken | None
    """None for a local caller without a token, in development mode."""

    @property
    def tenant(self) -> Tenant:
        """The tenant on whose behalf the request is made."""
        return self.token.tenant if self.token else tenant_by_name()

    @property
    def actor(self) -> str:
        """The caller as the actor of operations, without the tenant."""
        return f"token '{self.token.name}'" if self.token else "local caller without a token"


def caller_of(request: Request) -> Caller:
    """Return the caller of a request that passed the permission."""
    caller = request.auth
    assert isinstance(caller, Caller)  # noqa: S101 - the permission of every view checks it
    return caller


def needs_no_token(address: str) -> bool:
    """Return whether a request from `address` needs no token: development mode, loopback only."""
    if not settings.GPUPLATFORM_DEV:
        return False
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def scope_of(path: str) -> Scope:
    """Return the scope that a path of the API requires.

    The path decides, so no route can forget to declare its scope. The prefix that a proxy adds
    (SCRIPT_NAME) is not part of `path`: a caller may have sent it.
    """
    is_for_operators = path.startswith("/api/v1/operator/") or _REPLAY.fullmatch(path)
    return Scope.OPERATOR if is_for_operators else Scope.USER
