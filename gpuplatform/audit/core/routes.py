"""The object and the verb of a request to the API that was rejected. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

KINDS: Final[Mapping[str, str]] = {
    "capacity-queue": "CapacityRequest",
    "function": "Function",
    "functions": "Function",
    "gpu-spec": "GPUSpec",
    "gpu-specs": "GPUSpec",
    "gpu-unit": "GPUUnit",
    "gpu-units": "GPUUnit",
    "invocation": "Invocation",
    "invocations": "Invocation",
    "job": "Operation",
    "jobs": "Operation",
    "member": "Member",
    "members": "Member",
    "node": "Node",
    "nodes": "Node",
    "operator-audit": "AuditEntry",
    "operator-usage": "UsageRecord",
    "stock-unit": "GPUUnit",
    "stock-units": "GPUUnit",
    "stockpool": "StockPool",
    "stockpools": "StockPool",
    "tenant": "Tenant",
    "tenant-member": "Member",
    "tenant-members": "Member",
    "tenants": "Tenant",
    "token": "Token",
    "tokens": "Token",
    "unit-group": "UnitGroup",
    "unit-groups": "UnitGroup",
    "usage": "UsageRecord",
}
"""The kind of the object of a route. A route with a longer name has the kind of the longest route
with which its name begins: `gpu-unit-stop` is about a GPU unit."""

_VERBS: Final[Mapping[str, str]] = {
    "GET": "read",
    "HEAD": "read",
    "OPTIONS": "read",
    "POST": "create",
    "PUT": "update",
    "PATCH": "update",
    "DELETE": "delete",
}
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class RequestedAction:
    """The object and the verb of a request."""

    kind: str
    """The kind of the object, or an empty string if the route is not about objects."""
    verb: str


def requested_action(route: str, method: str) -> RequestedAction:
    """Return the object and the verb of a request; the verb of `POST gpu-unit-stop` is `stop`."""
    known = max((one for one in KINDS if _is_part(one, route)), key=len, default="")
    rest = route[len(known) + 1 :] if known else ""
    verb = rest if rest and method == "POST" else _VERBS.get(method, "read")
    return RequestedAction(KINDS.get(known, ""), verb)


def is_rejection(status: int, method: str) -> bool:
    """Return whether a response rejects the action of the request.

    A conflict rejects a write. A conflict of a read only means that no content is available.
    """
    if status == HTTPStatus.CONFLICT:
        return method not in _READS
    return status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}


def _is_part(known: str, route: str) -> bool:
    return route == known or route.startswith(f"{known}-")
