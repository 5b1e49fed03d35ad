"""The actor of the current request: the token or the admin user that sent it.

The permission of the API and the middleware of the admin set it. Operations store it (`asked_by`),
the audit log and log lines contain it. No decision depends on it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import TextChoices
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from gpuplatform.api.request_log import ACTOR_KEY

MAX_ACTOR_LENGTH: Final = 200


class ActorKind(TextChoices):
    """The kind of an actor."""

    TOKEN = "token", "Token"
    USER = "user", "Admin user"
    LOCAL = "local", "Local caller without a token"
    COMMAND = "command", "Management command"
    PLATFORM = "platform", "The platform"
    MANAGER = "manager", "Field manager, such as kubectl"
    ANONYMOUS = "anonymous", "Unknown caller"


@dataclass(frozen=True, slots=True)
class Actor:
    """An actor: its name, its kind, and the id of its row if it has one."""

    name: str = ""
    kind: ActorKind = ActorKind.PLATFORM
    key: str = ""


_actor: ContextVar[Actor] = ContextVar("actor", default=Actor())  # noqa: B039 - it is frozen


def current_actor() -> str:
    """Return the name of the actor, or an empty string if the platform acts automatically."""
    return _actor.get().name


def acting() -> Actor:
    """Return the actor."""
    return _actor.get()


def set_actor(actor: str, kind: ActorKind = ActorKind.COMMAND, key: object = "") -> None:
    """Set the actor until the end of the request or of the enclosing `acting_as` block."""
    _actor.set(Actor(actor[:MAX_ACTOR_LENGTH], kind, str(key)))


@contextmanager
def acting_as(actor: str, kind: ActorKind = ActorKind.COMMAND) -> Iterator[None]:
    """Set the actor within the block."""
    token = _actor.set(Actor(actor[:MAX_ACTOR_LENGTH], kind))
    try:
        yield
    finally:
        _actor.reset(token)


class ActorMiddleware:
    """Middleware that sets the actor of requests of admin users, and resets it at their end.

    Must be placed after Django's authentication middleware.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Return the response to a request."""
        with acting_as("", ActorKind.ANONYMOUS):
            response = self._get_response(request)
            request.META[ACTOR_KEY] = current_actor()
            return response

    def process_view(self, request: HttpRequest, *_: Any) -> None:
        """Set the actor for a page of the admin. `CallerPermission` sets it for the API."""
        match = request.resolver_match
        if match is not None and match.app_name == "admin" and request.user.is_authenticated:
            name = request.user.get_username()
            set_actor(f"admin user '{name}'", ActorKind.USER, request.user.pk)
