"""Converts every exception of a request to an `ErrorReply`.

A `PlatformError` keeps its code and message. Any other exception is logged with its traceback, and
the response has a generic message. DRF (`exception_handler`) and the middleware use this module.
"""

import logging
import math
from collections.abc import Mapping
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from django.core.exceptions import (
    BadRequest,
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
)
from django.db import InterfaceError, InternalError, OperationalError
from django.http import Http404, UnreadablePostError
from psycopg.errors import ReadOnlySqlTransaction
from rest_framework import exceptions as drf
from rest_framework.response import Response

from gpuplatform import errors
from gpuplatform.api.trace_id import current_trace_id

logger = logging.getLogger(__name__)

_STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (RequestDataTooBig, 413),
    (SuspiciousOperation, 400),
    (BadRequest, 400),
    (UnreadablePostError, 400),
    (Http404, 404),
    (PermissionDenied, 403),
)
_BY_STATUS: Mapping[int, type[errors.PlatformError]] = {
    401: errors.Unauthenticated,
    403: errors.NotAllowed,
    413: errors.TooLarge,
    415: errors.UnsupportedMediaType,
    429: errors.Throttled,
}


def exception_handler(exc: Exception, context: Mapping[str, Any]) -> Response:
    """Return the response for any exception of a DRF view. Django would respond with HTML."""
    error = platform_error(exc, allowed=context["view"].allowed_methods)
    log(error, exc)
    return Response(envelope(error), status=error.http_status, headers=headers(error))


def platform_error(exc: Exception, *, allowed: list[str]) -> errors.PlatformError:
    """Return the error to send to the caller. `allowed` are the HTTP methods of the path."""
    match exc:
        case errors.PlatformError():
            return exc
        case drf.MethodNotAllowed():
            methods = ", ".join(allowed)
            return errors.MethodNotAllowed(
                f"This path does not support the method. Supported methods: {methods}."
            )
        case OperationalError() | InterfaceError():
            return errors.DatabaseUnavailable.example()
        case InternalError(__cause__=ReadOnlySqlTransaction()):  # A standby after a fail-over.
            return errors.DatabaseUnavailable.example()
        case drf.APIException():
            return error_for_status(exc.status_code)
        case _:
            status = next((status for kind, status in _STATUSES if isinstance(exc, kind)), 500)
            return error_for_status(status)


def error_for_status(status: int) -> errors.PlatformError:
    """Return the generic error for an HTTP status."""
    if status in _BY_STATUS:
        return _BY_STATUS[status].example()
    if status == HTTPStatus.NOT_FOUND:
        return errors.NotFound("This path does not exist.")
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        return errors.MethodNotAllowed("This path does not support the method.")
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return errors.RequestError("The request is malformed.")
    return errors.InvariantBroken.example()


def envelope(error: errors.PlatformError) -> dict[str, Any]:
    """Return the `ErrorReply` of an error as a JSON object."""
    details = [{"field": one.field, "message": one.message} for one in error.details]
    waiting = {} if error.waiting is None else {"waiting": error.waiting}
    quota = {"quota": [asdict(one) for one in error.quota]} if error.quota else {}
    return {
        "error": {
            "code": error.code,
            "message": error.message,
            "details": details,
            **waiting,
            **quota,
            "traceID": current_trace_id(),
        }
    }


def headers(error: errors.PlatformError) -> dict[str, str]:
    """Return the response headers of an error."""
    found: dict[str, str] = {}
    if error.retry_after is not None:
        found["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    if error.http_status == HTTPStatus.UNAUTHORIZED:
        found["WWW-Authenticate"] = "Bearer"
    return found


def log(error: errors.PlatformError, exc: Exception) -> None:
    """Log an internal error with its traceback, and any other 5xx error in one line."""
    if error.http_status == HTTPStatus.INTERNAL_SERVER_ERROR:
        logger.error("internal error in a request", exc_info=exc, extra={"context": error.context})
    elif error.http_status > HTTPStatus.INTERNAL_SERVER_ERROR:
        logger.warning("responded with %s: %s", error.code, exc)
