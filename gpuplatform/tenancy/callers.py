"""Callers of the API: programs with a token or, in development mode, any local program."""

from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address

from django.conf import settings
from rest_framework.request import Request

from gpuplatform.postgresql.tenant_rows import all_rows
from gpuplatform.tenancy.actor import ActorKind
from gpuplatform.tenancy.models import ApiToken, Tenant
from gpuplatform.tenancy.permissions import Permission, permissions_needed
from gpuplatform.tenancy.selectors import tenant_by_name


@dataclass(frozen=True)
class Caller:
    """The sender of a request, with its permissions."""

    permissions: frozenset[Permission]
    """The permissions of the scopes of the token, within the permissions of its owner's role."""
    token: ApiToken | None
    """The token, or `None` for a local caller without a token in development mode."""

    def may(self, permission: Permission) -> bool:
        """Return whether the caller has a permission, for fields with restricted readers."""
        return permission in self.permissions

    @cached_property
    def tenant(self) -> Tenant:
        """The tenant of the token, or the default tenant."""
        with all_rows():
            return self.token.tenant if self.token else tenant_by_name()

    @property
    def actor(self) -> str:
        """The name of the caller as the actor of operations."""
        return f"token '{self.token.name}'" if self.token else "local caller without a token"

    @property
    def actor_kind(self) -> ActorKind:
        """The kind of the caller as an actor."""
        return ActorKind.TOKEN if self.token else ActorKind.LOCAL


def caller_of(request: Request) -> Caller:
    """Return the caller of a request that `CallerPermission` allowed."""
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


def needed_of(request: Request) -> frozenset[Permission]:
    """Return the permissions of which a request needs one, and none if no route matches."""
    match = request.resolver_match
    return permissions_needed(match.url_name or "", request.method or "") if match else frozenset()


def is_for_operators(request: Request) -> bool:
    """Return whether a request requires the permission of operators."""
    return needed_of(request) == {Permission.OPERATOR}
