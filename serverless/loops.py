"""Loops of the serverless processes: outages of queue and database are waited for, and said."""

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
"""After a failure; far below what anybody waits for."""


def keep_doing(step: Callable[[], object], stop: threading.Event, name: str) -> None:
    """Repeat `step` until `stop`; what it did not do because of an outage it does afterwards."""
    failure = ""
    while not stop.is_set():
        try:
            step()
        except (QueueError, DatabaseFault, psycopg.Error) as error:
            # The driver's own error comes from a connection that waits for news.
            if not isinstance(error, QueueError):
                connection.close()
            if failure != type(error).__name__:
                failure = type(error).__name__
                logger.warning("%s waits: %s", name, error)
            stop.wait(PAUSE_SECONDS)
        else:
            if failure:
                logger.info("%s goes on", name)
            failure = ""
    connection.close()
