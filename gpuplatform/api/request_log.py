"""One line of log for each request, and its time in the metrics.

A path is what the caller sent, so it is quoted: no line of the log is theirs to write. The query
is left out. Probes and static files are of interest to nobody; their lines are of level DEBUG.
"""

import logging
from typing import Final

from django.conf import settings
from django.http import HttpRequest
from django.utils.encoding import iri_to_uri

from gpuplatform.metrics.declared import HTTP_REQUESTS, HTTP_SECONDS
from gpuplatform.metrics.recorder import count, observe

logger = logging.getLogger("gpuplatform.requests")

PROBES: Final = frozenset({"/livez", "/readyz"})
METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
LONGEST_PATH: Final = 300


def record_request(request: HttpRequest, status: int, seconds: float, request_id: str) -> None:
    """Log and count one request that was answered."""
    path = request.path_info
    is_static = path.startswith(settings.STATIC_URL)
    logger.log(
        logging.DEBUG if is_static or path in PROBES else logging.INFO,
        "method=%s path=%s status=%d duration_ms=%.1f request_id=%s",
        request.method,
        (iri_to_uri(path) or "")[:LONGEST_PATH],
        status,
        seconds * 1000,
        request_id,
    )
    method = request.method if request.method in METHODS else "other"
    labels = {"method": str(method), "route": "static" if is_static else _route(request)}
    observe(HTTP_SECONDS, seconds, **labels)
    count(HTTP_REQUESTS, status=str(status), **labels)


def _route(request: HttpRequest) -> str:
    """Return the pattern of the address: a name in it is no label."""
    match = request.resolver_match
    return "unknown" if match is None else f"/{match.route}"
