"""Runs the step of a loop repeatedly, even after an outage of the queue or the database."""

import logging
import threading
from collections.abc import Callable
from typing import Final

import psycopg
from django.db import Error as DatabaseError
from django.db import connection

from serverless.queue.errors import QueueError

logger = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 1.0
"""Delay in seconds before the next attempt during an outage."""


def run_repeatedly(step: Callable[[], object], stop: threading.Event, name: str) -> None:
    """Repeat `step` until `stop` is set, even after errors of the queue or the database.

    `name` is the name of the loop in the log. Any other exception ends the loop.
    """
    outage = ""
    while not stop.is_set():
        try:
            step()
        except (QueueError, DatabaseError, psycopg.Error) as error:
            # `OutboxListener` calls the driver directly, which raises its own exceptions.
            if not isinstance(error, QueueError):
                connection.close()
            if outage != type(error).__name__:
                outage = type(error).__name__
                logger.warning("%s is waiting: %s", name, error)
            stop.wait(PAUSE_SECONDS)
        else:
            if outage:
                logger.info("%s continues", name)
            outage = ""
    connection.close()
