"""Sets the traceID of every request, and converts every error below `/api/` to JSON.

Django responds to some errors itself, such as an unknown path or an error in another middleware.
Below `/api/`, its HTML pages are replaced by an `ErrorReply` with the same status. Responses of
DRF are not changed.
"""

import logging
from collections.abc import Callable
from time import monotonic
from typing import Final

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.http.response import HttpResponseBase

from gpuplatform.api.exceptions import envelope, error_for_status, headers, log, platform_error
from gpuplatform.api.rate_headers import RATE_HEADERS_KEY
from gpuplatform.api.request_log import PROBES, record_request
from gpuplatform.api.trace_id import accepted_or_new, tracing
from gpuplatform.errors import PlatformError, RequestError

logger = logging.getLogger(__name__)

TRACE_ID_HEADER: Final = "X-Request-ID"

_UNKNOWN_HOST: Final = "The platform does not serve this host name. Check the URL."
_LONGEST_HOST: Final = 300
_COMPACT: Final = {"separators": (",", ":")}


class RequestMiddleware:
    """The outermost middleware. It must be the first entry of `MIDDLEWARE`."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Return the response to one request."""
        started = monotonic()
        trace_id = accepted_or_new(
            request.headers.get(TRACE_ID_HEADER, ""), request.headers.get("traceparent", "")
        )
        with tracing(trace_id):
            response = self._response(request)
        response.headers[TRACE_ID_HEADER] = trace_id
        for name, value in request.META.get(RATE_HEADERS_KEY, {}).items():
            response.headers[name] = value
        if settings.HSTS_HEADER:
            # Requests come from the proxy that terminates HTTPS, so Django does not send it.
            response.headers["Strict-Transport-Security"] = settings.HSTS_HEADER
        if request.method == "HEAD":
            _remove_body(response)
        record_request(request, response.status_code, monotonic() - started, trace_id)
        return response

    def _response(self, request: HttpRequest) -> HttpResponseBase:
        is_api = is_api_path(request.path_info)
        if request.path_info in PROBES:
            _replace_host(request)
        elif _is_unknown_host(request):
            error = RequestError(_UNKNOWN_HOST)
            return _json(error) if is_api else HttpResponseBadRequest(_UNKNOWN_HOST)
        if not is_api:
            return self._get_response(request)
        if "\x00" in request.path_info:
            # No name contains NUL, and PostgreSQL does not accept it in a comparison.
            return _json(error_for_status(404))
        response = self._get_response(request)
        if _is_error_of_django(response):
            response = _replaced(response)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Return the response for an exception of an API view without DRF, otherwise `None`."""
        if not is_api_path(request.path_info):
            return None
        error = platform_error(exception, allowed=[])
        log(error, exception)
        return _json(error)


def is_api_path(path: str) -> bool:
    """Return whether a path belongs to the API, even if it has superfluous slashes."""
    return path.lstrip("/").partition("/")[0] == "api"


def _replace_host(request: HttpRequest) -> None:
    """Replace the host name of a probe: kubelets and load balancers send the pod's address."""
    hosts = [host.lstrip(".") for host in settings.ALLOWED_HOSTS if host != "*"]
    if hosts:
        request.META["HTTP_HOST"] = hosts[0]


def _is_unknown_host(request: HttpRequest) -> bool:
    try:
        request.get_host()
    except DisallowedHost:
        host = request.META.get("HTTP_HOST", "")[:_LONGEST_HOST]
        logger.warning("host %r rejected: it is not in GPUPLATFORM_ALLOWED_HOSTS", host)
        return True
    return False


def _remove_body(response: HttpResponseBase) -> None:
    if isinstance(response, HttpResponse):
        response.headers.setdefault("Content-Length", str(len(response.content)))
        response.content = b""


def _is_error_of_django(response: HttpResponseBase) -> bool:
    is_own = hasattr(response, "accepted_renderer") or isinstance(response, JsonResponse)
    return response.status_code >= 400 and not is_own


def _replaced(response: HttpResponseBase) -> HttpResponse:
    replacement = _json(error_for_status(response.status_code))
    if "Allow" in response.headers:
        replacement.headers["Allow"] = response.headers["Allow"]
    return replacement


def _json(error: PlatformError) -> HttpResponse:
    response = JsonResponse(
        envelope(error),
        status=error.http_status,
        headers=headers(error),
        json_dumps_params=_COMPACT,
    )
    response.headers["Cache-Control"] = "no-store"
    return response
