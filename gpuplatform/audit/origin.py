"""The address from which the current request came."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django.conf import settings
from django.http import HttpRequest

from gpuplatform.formats.client_address import client_of

_address: ContextVar[str] = ContextVar("audit_address", default="")


def current_address() -> str:
    """Return the address of the client, or an empty string outside of a request."""
    return _address.get()


def address_of(request: HttpRequest) -> str:
    """Return the address of the client of a request; trusted proxies may have forwarded it."""
    return client_of(request.META, settings.TRUSTED_PROXIES)


@contextmanager
def coming_from(address: str) -> Iterator[None]:
    """Set the address within the block."""
    token = _address.set(address)
    try:
        yield
    finally:
        _address.reset(token)
