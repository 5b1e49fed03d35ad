"""Who calls the API: the holder of a token, or in development mode anybody on this machine."""

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from django.conf import settings
from rest_framework.request import Request

from gpuplatform.tenancy.models import ApiToken, Scope, Tenant
from gpuplatform.tenancy.selectors import tenant_by_name

_REPLAY: Final = re.compile("/api/v1/serverless/invocations/[^/]+/replay")
"""Sending dead letters again is for operators, though it stands beside what users do."""


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose behalf a request is made, and what it may do."""

    scopes: frozenset[str]
    token: ApiToken | None
    """None for a caller without a token, in development mode."""

    @property
    def tenant(self) -> Tenant:
        """The tenant that the request is made for."""
        return self.token.tenant if self.token else tenant_by_name()

    @property
    def words(self) -> str:
        """Who it is, for people; the tenant is said elsewhere."""
        return f"token '{self.token.name}'" if self.token else "anybody on this machine"


def caller_of(request: Request) -> Caller:
    """Return who makes a request that was let in."""
    caller = request.auth
    assert isinstance(caller, Caller)  # noqa: S101 - the permission of every view has seen to it
    return caller


def may_be_anybody(address: str) -> bool:
    """Say whether a request from `address` needs no token: development mode, loopback only."""
    if not settings.GPUPLATFORM_DEV:
        return False
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def scope_of(path: str) -> Scope:
    """Return the scope that a path of the API takes: the very one that its view is found by.

    The address decides, so that no route can forget to say it. What a proxy says stands before it
    (SCRIPT_NAME) is no part of it; a caller may have said it.
    """
    is_operators = path.startswith("/api/v1/operator/") or _REPLAY.fullmatch(path)
    return Scope.OPERATOR if is_operators else Scope.USER
