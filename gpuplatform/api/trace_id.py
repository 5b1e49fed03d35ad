"""The traceID of the current HTTP request, for error responses and logs."""

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_SAFE = re.compile("[A-Za-z0-9._-]{1,128}")
_TRACEPARENT = re.compile(
    "(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)
_current: ContextVar[str] = ContextVar("trace_id", default="")


def accepted_or_new(offered: str, traceparent: str = "") -> str:
    """Return the traceID of a request.

    It is the value of `X-Request-ID` (`offered`) if that is safe to log, otherwise the trace id
    of a valid `traceparent`, otherwise a new id.

    Source: W3C, "Trace Context", section 3.2.
    """
    if _SAFE.fullmatch(offered):
        return offered
    match = _TRACEPARENT.fullmatch(traceparent)
    return match[1] if match else uuid.uuid4().hex


def current_trace_id() -> str:
    """Return the id of the current request, or a new id outside of a request."""
    return _current.get() or uuid.uuid4().hex


def request_trace_id() -> str:
    """Return the id of the current request, or an empty string outside of a request."""
    return _current.get()


@contextmanager
def tracing(trace_id: str) -> Iterator[None]:
    """Set the current id to `trace_id` within the block."""
    token = _current.set(trace_id)
    try:
        yield
    finally:
        _current.reset(token)
