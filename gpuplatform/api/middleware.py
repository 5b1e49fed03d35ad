"""The outermost layer: a request id for every request, and JSON for every error below `/api/`.

What DRF answers is left alone. What Django answers by itself (unknown path, bad Host, a fault in
another middleware) would be HTML; below `/api/` it becomes the envelope with the same status.
"""

from collections.abc import Callable
from time import monotonic

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase

from gpuplatform.api.exceptions import envelope, error_for_status, headers, log, platform_error
from gpuplatform.api.request_log import record_request
from gpuplatform.api.trace_id import accepted_or_new, tracing
from gpuplatform.errors import PlatformError

API_PREFIX = "/api/"
TRACE_ID_HEADER = "X-Request-ID"


class RequestMiddleware:
    """Must be the first in `MIDDLEWARE`."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer one request."""
        begun_at = monotonic()
        trace_id = accepted_or_new(
            request.headers.get(TRACE_ID_HEADER, ""), request.headers.get("traceparent", "")
        )
        with tracing(trace_id):
            response = self._answer(request)
        response.headers[TRACE_ID_HEADER] = trace_id
        record_request(request, response.status_code, monotonic() - begun_at, trace_id)
        return response

    def _answer(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(API_PREFIX):
            return self._get_response(request)
        if "\x00" in request.path_info:
            # No name of ours has a NUL in it, and PostgreSQL takes none in a comparison.
            return _json(error_for_status(404))
        response = self._get_response(request)
        return _replaced(response) if _is_djangos_error(response) else response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Answer for a view that is not DRF's; elsewhere Django's own page serves."""
        if not request.path_info.startswith(API_PREFIX):
            return None
        error = platform_error(exception, allowed=[])
        log(error, exception)
        return _json(error)


def _is_djangos_error(response: HttpResponseBase) -> bool:
    is_ours = hasattr(response, "accepted_renderer") or isinstance(response, JsonResponse)
    return response.status_code >= 400 and not is_ours


def _replaced(response: HttpResponseBase) -> HttpResponse:
    replacement = _json(error_for_status(response.status_code))
    if "Allow" in response.headers:
        replacement.headers["Allow"] = response.headers["Allow"]
    return replacement


def _json(error: PlatformError) -> HttpResponse:
    return JsonResponse(envelope(error), status=error.http_status, headers=headers(error))
