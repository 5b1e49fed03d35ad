"""Logs every request and records its duration as a metric.

The fields of a log line are `method`, `path` (without the query), `status`, `duration_ms`,
`tenant`, `actor` and `traceID`. Requests for probes and static files have the level DEBUG.
"""

import logging
from typing import Final

from django.conf import settings
from django.http import HttpRequest
from django.utils.encoding import iri_to_uri

from gpuplatform.metrics.declared import HTTP_REQUESTS, HTTP_SECONDS
from gpuplatform.metrics.recorder import count, observe

logger = logging.getLogger("gpuplatform.requests")

ACTOR_KEY: Final = "gpuplatform.actor"
"""Key in `request.META` of the name of the token or admin user that sent the request."""
TENANT_KEY: Final = "gpuplatform.tenant"
"""Key in `request.META` of the name of the caller's tenant."""

PROBES: Final = frozenset({"/livez", "/readyz"})
METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
MAX_PATH: Final = 300
UNKNOWN_ADDRESS: Final = "unknown-address"
"""Name of the catch-all route below `/api/`."""


def record_request(request: HttpRequest, status: int, seconds: float, trace_id: str) -> None:
    """Log a completed request and record its metrics."""
    path = request.path_info
    is_static = path.startswith(settings.STATIC_URL)
    fields = {
        "method": request.method,
        "path": (iri_to_uri(path) or "")[:MAX_PATH],
        "status": status,
        "duration_ms": round(seconds * 1000, 1),
        "tenant": request.META.get(TENANT_KEY, ""),
        "actor": request.META.get(ACTOR_KEY, ""),
        "traceID": trace_id,
    }
    level = logging.DEBUG if is_static or path in PROBES else logging.INFO
    logger.log(level, "request completed", extra=fields)
    method = request.method if request.method in METHODS else "other"
    labels = {"method": str(method), "route": "static" if is_static else _route(request)}
    observe(HTTP_SECONDS, seconds, **labels)
    count(HTTP_REQUESTS, status=str(status), **labels)


def _route(request: HttpRequest) -> str:
    """Return the pattern of the route, so that metric labels contain no names of objects."""
    match = request.resolver_match
    if match is None or match.url_name == UNKNOWN_ADDRESS:
        return "unknown"
    return f"/{match.route}"
