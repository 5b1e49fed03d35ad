"""Who asks, in words, while a request is answered: what an operation keeps of it.

The API's permission and the admin's middleware say it; only accepting an operation reads it. It is
for people who look into what happened, and decides nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase

MAX_ACTOR_LENGTH: Final = 200
_asker: ContextVar[str] = ContextVar("current_actor", default="")


def current_actor() -> str:
    """Return who asks; empty when the platform does something by itself."""
    return _asker.get()


def set_actor(words: str) -> None:
    """Say who asks, until the request, or the block of `acting_as` around this, ends."""
    _asker.set(words[:MAX_ACTOR_LENGTH])


@contextmanager
def acting_as(words: str) -> Iterator[None]:
    """Say who asks for the block."""
    token = _asker.set(words[:MAX_ACTOR_LENGTH])
    try:
        yield
    finally:
        _asker.reset(token)


class ActorMiddleware:
    """Forgets who asked when a request ends, and knows who works in the admin.

    Must come after Django's authentication.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer one request."""
        with acting_as(""):
            return self._get_response(request)

    def process_view(self, request: HttpRequest, *_: Any) -> None:
        """Note the person; the API notes its callers itself."""
        match = request.resolver_match
        if match is not None and match.app_name == "admin" and request.user.is_authenticated:
            set_actor(f"admin user '{request.user.get_username()}'")
