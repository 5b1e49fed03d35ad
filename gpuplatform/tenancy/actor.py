"""The actor of the current request: the token or the admin user on whose behalf it runs.

The API's permission and the admin's middleware set it. An operation stores it (`asked_by`) and the
request's log line shows it; no decision reads it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from gpuplatform.api.request_log import ACTOR_KEY

MAX_ACTOR_LENGTH: Final = 200
_actor: ContextVar[str] = ContextVar("actor", default="")


def current_actor() -> str:
    """Return the actor; empty for what the platform does automatically."""
    return _actor.get()


def set_actor(actor: str) -> None:
    """Set the actor until the request, or the enclosing block of `acting_as`, ends."""
    _actor.set(actor[:MAX_ACTOR_LENGTH])


@contextmanager
def acting_as(actor: str) -> Iterator[None]:
    """Set the actor for the block."""
    token = _actor.set(actor[:MAX_ACTOR_LENGTH])
    try:
        yield
    finally:
        _actor.reset(token)


class ActorMiddleware:
    """Resets the actor when a request ends, and sets it for users of the admin.

    It must come after Django's authentication.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer one request."""
        with acting_as(""):
            response = self._get_response(request)
            request.META[ACTOR_KEY] = current_actor()
            return response

    def process_view(self, request: HttpRequest, *_: Any) -> None:
        """Set the user of the admin; the API's permission sets callers."""
        match = request.resolver_match
        if match is not None and match.app_name == "admin" and request.user.is_authenticated:
            set_actor(f"admin user '{request.user.get_username()}'")
