"""What is shown for an address that is not there, or that somebody may not open.

In the admin the navigation stays, so that there is a way on. Django calls these for whatever is
not below `/api/`; they ask the database only for somebody who is logged in to the admin.
"""

from collections.abc import Sequence

from django.contrib.admin import site
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.text import get_text_list

WHO_GIVES = "Whoever may change users and groups can give you the right."


def not_allowed(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 403: what the one who asks is let do, and who can change that."""
    verb = "see" if request.method in {"GET", "HEAD"} else "do"
    if not _is_in_admin(request):
        return render(request, "403.html", status=403)
    return _page(request, 403, f"You may not {verb} this", _why_not(request, exception))


def not_found(
    request: HttpRequest,
    exception: Exception,  # noqa: ARG001 - what Django hands over
) -> HttpResponse:
    """Answer 404."""
    if not _is_in_admin(request):
        return render(request, "404.html", status=404)
    return _page(request, 404, "There is nothing here", ["It may have been removed."])


def _is_in_admin(request: HttpRequest) -> bool:
    return request.path.startswith(reverse("admin:index")) and site.has_permission(request)


def _why_not(request: HttpRequest, exception: Exception) -> list[str]:
    user, said = request.user, str(exception)
    if said:
        return [said]
    if not isinstance(user, User) or user.is_superuser:
        return ["Nobody may: it is not made or changed by hand."]
    groups = get_text_list([group.name for group in user.groups.all()], "and")
    return [f"You are '{user.username}', in {groups or 'no group'}.", WHO_GIVES]


def _page(request: HttpRequest, status: int, title: str, texts: Sequence[str]) -> HttpResponse:
    context = {**site.each_context(request), "title": title, "texts": texts}
    return render(request, "admin/error.html", context, status=status)
