"""Whether the client of a request still waits for the response."""

from collections.abc import Callable
from typing import Final

from rest_framework.request import Request

IS_DISCONNECTED_KEY: Final = "gpuplatform.is_disconnected"
"""Key in the WSGI environment of a function that returns whether the client has disconnected."""


def has_disconnected(request: Request) -> bool:
    """Return whether the client has closed its connection, or `False` if that is unknown."""
    is_disconnected: Callable[[], bool] | None = request.META.get(IS_DISCONNECTED_KEY)
    return is_disconnected is not None and is_disconnected()
