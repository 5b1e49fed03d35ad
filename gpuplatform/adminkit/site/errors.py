"""Error pages, and the middleware for invalid queries of admin pages.

Error pages of the admin contain the navigation. Django calls the views for every URL that does not
begin with `/api/`; they query the database only for users of the admin.
"""

import logging
from collections.abc import Callable, Sequence

from django.contrib import messages
from django.contrib.admin import site
from django.contrib.auth.models import User
from django.db import DataError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.text import get_text_list

logger = logging.getLogger(__name__)

ASK_FOR_ACCESS = "Ask an administrator for permission."
_PREFIX = "/admin/"


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Return a 403 page with the reason, or with the user's groups if a permission is missing."""
    if not _is_in_admin(request):
        return render(request, "403.html", status=403)
    if str(exception):
        return _page(request, 403, "Permission denied", [str(exception)])
    user = request.user
    if not isinstance(user, User) or user.is_superuser:
        return _page(request, 403, "Permission denied", ["This object is read-only."])
    groups = get_text_list([group.name for group in user.groups.all()], "and")
    account = f"You are logged in as '{user.username}', a member of {groups or 'no group'}."
    return _page(request, 403, "Permission denied", [account, ASK_FOR_ACCESS])


def not_found(
    request: HttpRequest,
    exception: Exception,  # noqa: ARG001 - Django passes it
) -> HttpResponse:
    """Return a 404 page."""
    if not _is_in_admin(request):
        return render(request, "404.html", status=404)
    return _page(
        request, 404, "Page not found", ["The page does not exist, or its object was deleted."]
    )


def _is_in_admin(request: HttpRequest) -> bool:
    return request.path.startswith(reverse("admin:index")) and site.has_permission(request)


def _page(request: HttpRequest, status: int, title: str, texts: Sequence[str]) -> HttpResponse:
    context = {**site.each_context(request), "title": title, "texts": texts}
    return render(request, "admin/error.html", context, status=status)


class InvalidQueryMiddleware:
    """Middleware that redirects to the page without its query if the query is invalid."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Return the response of the view."""
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Redirect after an exception from an invalid value; the log contains the traceback."""
        is_invalid = isinstance(exception, (DataError, OverflowError, ValueError))
        if not is_invalid or not request.path.startswith(_PREFIX):
            return None
        if not request.GET and request.method != "POST":
            return None
        logger.warning("invalid query of an admin page", exc_info=exception)
        messages.error(request, "The filter or the selection is invalid.")
        return HttpResponseRedirect(request.path)
