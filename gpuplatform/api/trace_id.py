"""The traceID of the HTTP request that this thread answers, for error bodies and logs."""

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_SAFE = re.compile("[A-Za-z0-9._-]{1,128}")
_current: ContextVar[str] = ContextVar("trace_id", default="")


def accepted_or_new(offered: str) -> str:
    """Return the caller's own id if it is safe to log, otherwise a new one."""
    return offered if _SAFE.fullmatch(offered) else uuid.uuid4().hex


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
