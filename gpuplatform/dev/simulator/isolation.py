"""Isolation of unexpected errors: one odd object must not end a process that handles many."""

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def isolated(log: logging.Logger, subject: object) -> Iterator[None]:
    """Log an exception of the block with `subject`, the object that the block handles."""
    try:
        yield
    except Exception:  # An odd object must not end the process.
        log.exception("Unexpected error: %s", subject)
