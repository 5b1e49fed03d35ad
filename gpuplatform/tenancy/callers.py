"""Callers of the API: programs with a token or, in development mode, any local program."""

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from django.conf import settings
from rest_framework.request import Request

from gpuplatform.tenancy.models import ApiToken, Scope, Tenant
from gpuplatform.tenancy.selectors import tenant_by_name

_REPLAY: Final = re.compile("/api/v1/serverless/invocations/[^/]+/replay")
"""The replay of a dead letter requires the operator scope although its path is a user path."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request, with its scopes."""

    scopes: frozenset[str]
    token: ApiToken | None
    """The token, or `None` for a local caller without a token in development mode."""

    @property
    def tenant(self) -> Tenant:
        """The tenant of the token, or the default tenant."""
        return self.token.tenant if self.token else tenant_by_name()

    @property
    def actor(self) -> str:
        """The name of the caller as the actor of operations."""
        return f"token '{self.token.name}'" if self.token else "local caller without a token"


def caller_of(request: Request) -> Caller:
    """Return the caller of a request that `ScopePermission` allowed."""
    caller = request.auth
    assert isinstance(caller, Caller)  # noqa: S101 - the permission of every view checks it
    return caller


def needs_no_token(address: str) -> bool:
    """Return whether `address` needs no token: a loopback address in development mode."""
    if not settings.GPUPLATFORM_DEV:
        return False
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def scope_of(path: str) -> Scope:
    """Return the scope that a path of the API requires.

    The scope is derived from the path, so that no route can omit it. `path` does not contain the
    prefix of a proxy (SCRIPT_NAME), because a caller can set that.
    """
    is_for_operators = path.startswith("/api/v1/operator/") or _REPLAY.fullmatch(path)
    return Scope.OPERATOR if is_for_operators else Scope.USER
