"""Whether the client of a request still waits for the response."""

from collections.abc import Callable
from typing import Final

from rest_framework.request import Request

HAS_LEFT_KEY: Final = "gpuplatform.has_left"
"""Key in the WSGI environment of a function that returns whether the client has disconnected."""


def has_disconnected(request: Request) -> bool:
    """Return whether the client has closed its connection, or `False` if that is unknown."""
    has_left: Callable[[], bool] | None = request.META.get(HAS_LEFT_KEY)
    return has_left is not None and has_left()
