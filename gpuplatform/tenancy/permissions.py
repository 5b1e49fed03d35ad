"""The permission that each method of each route requires, with the scopes and roles that have it.

`PERMISSIONS` is the only place that decides who may call a route. The permission class of all
views, the authentication, the OpenAPI document and `docs/permissions.md` are derived from it. A
test fails if a route has no entry. To add a route, add its name and its methods.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from django.db.models import TextChoices


class Permission(StrEnum):
    """What a caller may do. A scope of a token grants permissions."""

    PUBLIC = "public"
    """Requires no token."""
    TOKEN = "token"  # noqa: S105 - not a secret
    """Requires any valid token. The view restricts the rows to the rows of the caller."""
    READ = "read"
    """Read objects of the tenant, without values of variables and bodies of results."""
    WRITE = "write"
    """Change objects of the tenant and read values of variables."""
    PAYLOADS = "payloads"
    """Read the bodies of the results of invocations."""
    ADMIN = "admin"
    """Manage the members and the tokens of the tenant."""
    OPERATOR = "operator"
    """Call the routes for operators."""


class Scope(TextChoices):
    """A set of permissions that a token has. `user` is the alias of three other scopes."""

    READ = "read", "Read: objects of the tenant, without values of variables and results"
    WRITE = "write", "Write: GPU units, functions and own tokens; values of variables"
    PAYLOADS = "payloads", "Payloads: bodies of the results of invocations"
    ADMIN = "admin", "Admin: members and tokens of the tenant"
    OPERATOR = "operator", "Operator: stock, pools, GPU specs and all operations"
    USER = "user", "User: the same as read, write and payloads"


class Role(TextChoices):
    """The role of a member in a tenant. It limits the permissions of the member's tokens."""

    VIEWER = "viewer", "Viewer: reads, without values of variables and results"
    MEMBER = "member", "Member: reads and writes units, functions and own tokens"
    ADMIN = "admin", "Admin: in addition manages members and tokens"


class Method(StrEnum):
    """The HTTP methods of the table. HEAD requires the permission of GET."""

    GET = "GET"
    POST = "POST"
    PUT = "PUT"
    PATCH = "PATCH"
    DELETE = "DELETE"


_MEMBER: Final = frozenset({Permission.READ, Permission.WRITE, Permission.PAYLOADS})

SCOPE_PERMISSIONS: Final[Mapping[str, frozenset[Permission]]] = MappingProxyType(
    {
        Scope.READ: frozenset({Permission.READ}),
        Scope.WRITE: frozenset({Permission.WRITE}),
        Scope.PAYLOADS: frozenset({Permission.PAYLOADS}),
        Scope.ADMIN: frozenset({Permission.ADMIN}),
        Scope.OPERATOR: frozenset({Permission.OPERATOR}),
        Scope.USER: _MEMBER,
    }
)
"""The permissions of each scope. Every token also has the permission `token`."""

ROLE_PERMISSIONS: Final[Mapping[str, frozenset[Permission]]] = MappingProxyType(
    {
        Role.VIEWER: frozenset({Permission.READ}),
        Role.MEMBER: _MEMBER,
        Role.ADMIN: _MEMBER | {Permission.ADMIN},
    }
)
"""The permissions that the tokens of a member can have. A role includes the one before."""

_READ: Final = {Method.GET: Permission.READ}
_WRITE: Final = {Method.POST: Permission.WRITE}
_LIST: Final = {**_READ, **_WRITE}
_OBJECT: Final = {**_READ, Method.PUT: Permission.WRITE, Method.DELETE: Permission.WRITE}
_OPERATE_READ: Final = {Method.GET: Permission.OPERATOR}
_OPERATE: Final = {Method.POST: Permission.OPERATOR}
_OPERATE_LIST: Final = {**_OPERATE_READ, **_OPERATE}
_OPERATE_OBJECT: Final = {
    **_OPERATE_READ,
    Method.PATCH: Permission.OPERATOR,
    Method.DELETE: Permission.OPERATOR,
}
_PUBLIC: Final = {Method.GET: Permission.PUBLIC}

PERMISSIONS: Final[Mapping[str, Mapping[Method, Permission]]] = MappingProxyType(
    {
        "api-root": _PUBLIC,
        "health": _PUBLIC,
        "schema": _PUBLIC,
        # The signature of the link replaces a token.
        "invocation-result": _PUBLIC,
        "me": {Method.GET: Permission.TOKEN},
        "tokens": {Method.GET: Permission.TOKEN, Method.POST: Permission.WRITE},
        "token": {Method.DELETE: Permission.TOKEN},
        "own-tenant": _READ,
        "usage": _READ,
        "usage-records": _READ,
        "members": {Method.GET: Permission.READ},
        "member": {Method.PUT: Permission.ADMIN, Method.DELETE: Permission.ADMIN},
        "gpu-units": _LIST,
        "gpu-unit": _OBJECT,
        "gpu-unit-stop": _WRITE,
        "gpu-unit-start": _WRITE,
        "gpu-unit-logs": _READ,
        "gpu-unit-events": _READ,
        "gpu-unit-history": _READ,
        "unit-groups": _LIST,
        "unit-group": {**_READ, Method.DELETE: Permission.WRITE},
        "unit-group-stop": _WRITE,
        "unit-group-start": _WRITE,
        "available-gpu-specs": _READ,
        "available-gpu-spec": _READ,
        "operations": _READ,
        "operation": _READ,
        "functions": _LIST,
        "function": _OBJECT,
        "function-webhook-secret": _WRITE,
        "invocations": _LIST,
        "invocation": _READ,
        "invocation-cancel": _WRITE,
        "invocation-replay": _OPERATE,
        "jobs": _OPERATE_READ,
        "job": _OPERATE_READ,
        "job-cancel": _OPERATE,
        "job-retry": _OPERATE,
        "stockpools": _OPERATE_LIST,
        "stockpool": _OPERATE_OBJECT,
        "gpu-specs": _OPERATE_LIST,
        "gpu-spec": _OPERATE_OBJECT,
        "stock-units": {**_OPERATE_LIST, Method.DELETE: Permission.OPERATOR},
        "stock-unit": {**_OPERATE_READ, Method.DELETE: Permission.OPERATOR},
        "nodes": _OPERATE_READ,
        "node": _OPERATE_READ,
        "node-cordon": _OPERATE,
        "node-uncordon": _OPERATE,
        "node-drain": _OPERATE,
        "node-drain-cancel": _OPERATE,
        "capacity-queue": _OPERATE_READ,
        "inventory": _OPERATE_READ,
        "operator-usage": _OPERATE_READ,
        "operator-usage-records": _OPERATE_READ,
        "operator-audit": _OPERATE_READ,
        "operator-audit-entries": _OPERATE_READ,
        "tenants": _OPERATE_LIST,
        "tenant": _OPERATE_OBJECT,
        "tenant-suspend": _OPERATE,
        "tenant-resume": _OPERATE,
        "tenant-limits": {**_OPERATE_READ, Method.PUT: Permission.OPERATOR},
        "tenant-members": _OPERATE_READ,
        "tenant-member": {Method.PUT: Permission.OPERATOR, Method.DELETE: Permission.OPERATOR},
    }
)
"""The required permission by route name and method."""


def permissions_of_scopes(scopes: Iterable[str]) -> frozenset[Permission]:
    """Return the permissions of a token with these scopes, without limits by a role.

    Unknown scopes, which a later release stored, grant nothing.
    """
    granted = (SCOPE_PERMISSIONS.get(scope, frozenset[Permission]()) for scope in scopes)
    return frozenset[Permission]().union(*granted) | {Permission.TOKEN}


def permissions_needed(route: str, method: str) -> frozenset[Permission]:
    """Return the permissions of which a caller needs one for a method of a route.

    HEAD needs the permission of GET. OPTIONS, and a method that the route does not support, need
    the permission for any method of the route. The result is empty for a route without an entry,
    so that no caller may call it.
    """
    methods = PERMISSIONS.get(route, {})
    wanted = Method.GET if method == "HEAD" else method
    if wanted in methods:
        return frozenset({methods[Method(wanted)]})
    return frozenset(methods.values())
