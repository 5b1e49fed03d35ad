"""Records rejected requests, and sets the address of the client for other entries."""

import json
import logging
from collections.abc import Callable
from typing import Any, Final

from django.db import Error as DatabaseFault
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase

from gpuplatform.api.middleware import is_api_path
from gpuplatform.api.request_log import TENANT_KEY
from gpuplatform.audit.core.routes import is_rejection, requested_action
from gpuplatform.audit.models import Outcome
from gpuplatform.audit.origin import address_of, coming_from, current_address
from gpuplatform.audit.services.anonymous import is_recorded
from gpuplatform.audit.services.entries import Entry, entry_insert
from gpuplatform.tenancy.actor import ActorKind, acting

logger = logging.getLogger(__name__)

PAGE_KIND: Final = "AdminPage"
"""The kind of the object of a request to a page that the user may not open."""


class AuditMiddleware:
    """Middleware that records rejected requests, inside the one that sets their actor."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Return the response to a request."""
        with coming_from(address_of(request)):
            response = self._get_response(request)
            if is_rejection(response.status_code, request.method or ""):
                is_known = acting().kind is not ActorKind.ANONYMOUS
                if is_known or is_recorded(current_address()):
                    _record(_rejection(request, response))
            return response


def _record(entry: Entry) -> None:
    """Insert an entry. The request is rejected in any case, even if the database is down."""
    try:
        entry_insert(entry)
    except DatabaseFault:
        logger.exception("a rejected request is missing in the audit log")


def _rejection(request: HttpRequest, response: HttpResponseBase) -> Entry:
    code = _code(response)
    if not is_api_path(request.path_info):
        method = request.method or ""
        verb = "read" if method in {"GET", "HEAD"} else "update"
        return Entry(
            outcome=Outcome.REJECTED,
            verb=verb,
            kind=PAGE_KIND,
            name=request.path_info,
            code=code,
        )
    match = request.resolver_match
    what = requested_action((match.url_name if match else "") or "", request.method or "")
    path = match.kwargs if match else {}
    return Entry(
        outcome=Outcome.REJECTED,
        verb=what.verb,
        tenant=request.META.get(TENANT_KEY, ""),
        kind=what.kind,
        name="/".join(str(one) for one in path.values()),
        code=code,
    )


def _code(response: HttpResponseBase) -> str:
    """Return the error code of a response, or `forbidden` for a page of the admin."""
    data: Any = getattr(response, "data", None)
    if isinstance(response, JsonResponse):
        data = json.loads(response.content)
    error = data.get("error") if isinstance(data, dict) else None
    return str(error.get("code", "")) if isinstance(error, dict) else "forbidden"
