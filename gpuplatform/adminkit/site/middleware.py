"""Addresses of the admin that nobody can make by clicking: an answer instead of a fault."""

import logging
from collections.abc import Callable

from django.contrib import messages
from django.db import DataError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

logger = logging.getLogger(__name__)

_PREFIX = "/admin/"


class InvalidQueryMiddleware:
    """Leads back to the page itself when its filters or selection cannot be read."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on."""
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Answer for values that the database cannot take; the log has the whole of it."""
        is_odd = isinstance(exception, (DataError, OverflowError, ValueError))
        if not is_odd or not request.path.startswith(_PREFIX):
            return None
        if not request.GET and request.method != "POST":
            return None
        logger.warning("a page of the admin was asked something odd", exc_info=exception)
        messages.error(request, "The filter or the selection could not be read.")
        return HttpResponseRedirect(request.path)
