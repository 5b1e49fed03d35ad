"""Locks in the database, for commands that must not run beside themselves on any machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from django.db import connection


class Lock(IntEnum):
    """Keys of `pg_advisory_lock`, shared by every release."""

    PREPARATION = 0x6770_7570_6C61_7466
    """"gpuplatf" in ASCII."""
    RECOVERY = 0x7265_636F_7665_7279
    """"recovery" in ASCII."""


@contextmanager
def advisory_lock(lock: Lock) -> Iterator[None]:
    """Hold the lock, once nobody else does; the database frees it when the connection ends."""
    with connection.cursor() as cursor:
        # The work takes as long as it takes, and so does waiting for somebody else's.
        cursor.execute("SET lock_timeout = 0; SET statement_timeout = 0")
        cursor.execute("SELECT pg_advisory_lock(%s)", [lock])
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [lock])
            cursor.execute("RESET lock_timeout; RESET statement_timeout")
