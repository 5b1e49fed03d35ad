"""The traceID of the HTTP request that this thread answers, for error bodies and logs."""

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
    """Return the caller's own id if it is safe to log, otherwise a new one.

    Without an id of the caller (`X-Request-ID`), the trace id of a valid `traceparent` is used.

    Source: W3C, "Trace Context", section 3.2.
    """
    if _SAFE.fullmatch(offered):
        return offered
    match = _TRACEPARENT.fullmatch(traceparent)
    return match[1] if match else uuid.uuid4().hex


def current_trace_id() -> str:
    """Return the id of the current request; a new one outside of a request."""
    return _current.get() or uuid.uuid4().hex


def request_trace_id() -> str:
    """Return the id of the current request; empty outside of a request."""
    return _current.get()


@contextmanager
def tracing(trace_id: str) -> Iterator[None]:
    """Make `trace_id` the current one within the block."""
    token = _current.set(trace_id)
    try:
        yield
    finally:
        _current.reset(token)
