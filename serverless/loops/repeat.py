"""Runs a step of a loop repeatedly; outages of queue and database are waited for and logged."""

import logging
import threading
from collections.abc import Callable
from typing import Final

import psycopg
from django.db import Error as DatabaseFault
from django.db import connection

from serverless.queue.errors import QueueError

logger = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 1.0
"""Delay after an outage before the next attempt."""


def run_repeatedly(step: Callable[[], object], stop: threading.Event, name: str) -> None:
    """Repeat `step` until `stop` is set; an outage of queue or database does not end the loop.

    `name` is how the log calls the loop. Any other error is raised.
    """
    failure = ""
    while not stop.is_set():
        try:
            step()
        except (QueueError, DatabaseFault, psycopg.Error) as error:
            # `OutboxListener` uses the driver's connection, which raises the driver's errors.
            if not isinstance(error, QueueError):
                connection.close()
            if failure != type(error).__name__:
                failure = type(error).__name__
                logger.warning("%s is waiting: %s", name, error)
            stop.wait(PAUSE_SECONDS)
        else:
            if failure:
                logger.info("%s continues", name)
            failure = ""
    connection.close()
