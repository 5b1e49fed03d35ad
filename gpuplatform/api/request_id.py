"""The number of the request that this thread is answering, for error bodies and logs."""

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_SOUND = re.compile("[A-Za-z0-9._-]{1,128}")
_current: ContextVar[str] = ContextVar("request_id", default="")


def sound_or_new(offered: str) -> str:
    """Return the caller's own id if it is harmless in a log, else a new one."""
    return offered if _SOUND.fullmatch(offered) else uuid.uuid4().hex


def current_request_id() -> str:
    """Return the id of the request being answered; a new one outside of any."""
    return _current.get() or uuid.uuid4().hex


@contextmanager
def answering(request_id: str) -> Iterator[None]:
    """Make `request_id` the current one for the block."""
    token = _current.set(request_id)
    try:
        yield
    finally:
        _current.reset(token)
