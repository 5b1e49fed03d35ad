"""Waits for PostgreSQL notifications about the outbox."""

from django.db import connection
from psycopg import Connection

from serverless.services.names import OUTBOX_CHANNEL


class OutboxListener:
    """A listener on the database connection of the current thread."""

    def __init__(self) -> None:
        """Prepare the listener. It starts to listen when `wait` is called first."""
        self._listening: Connection | None = None

    def wait(self, seconds: float) -> bool:
        """Wait for a notification; return whether the outbox may have a new invocation.

        The first call on a connection starts to listen and returns `True` immediately, because
        earlier notifications are lost. Later notifications are buffered between calls.
        """
        connection.ensure_connection()
        raw: Connection = connection.connection
        if raw is not self._listening:
            raw.execute(f"LISTEN {OUTBOX_CHANNEL}")
            self._listening = raw
            return True
        return any(True for _ in raw.notifies(timeout=seconds, stop_after=1))
