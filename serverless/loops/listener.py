"""Waits for PostgreSQL's notifications about the outbox."""

from django.db import connection
from psycopg import Connection

from serverless.services.names import OUTBOX_CHANNEL


class OutboxListener:
    """Listens on the database connection of its thread."""

    def __init__(self) -> None:
        """Start listening with the first `wait`."""
        self._listening: Connection | None = None

    def wait(self, seconds: float) -> bool:
        """Wait for a notification; return whether the outbox may have a new invocation.

        A connection that starts to listen returns True immediately, because notifications before
        that are lost. Later ones are buffered between two calls.
        """
        connection.ensure_connection()
        raw: Connection = connection.connection
        if raw is not self._listening:
            raw.execute(f"LISTEN {OUTBOX_CHANNEL}")
            self._listening = raw
            return True
        return any(True for _ in raw.notifies(timeout=seconds, stop_after=1))
