"""PostgreSQL advisory locks, for commands that must not run concurrently and for turns."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from django.db import connection


class Lock(IntEnum):
    """Keys of `pg_advisory_lock`. They must not change between releases."""

    PREPARATION = 0x6770_7570_6C61_7466
    """"gpuplatf" in ASCII."""
    RECOVERY = 0x7265_636F_7665_7279
    """"recovery" in ASCII."""


@contextmanager
def advisory_lock(lock: Lock) -> Iterator[None]:
    """Hold the lock within the block. The database also releases it if the connection ends."""
    with connection.cursor() as cursor:
        # Neither the work nor the wait for the lock has a time limit.
        cursor.execute("SET lock_timeout = 0; SET statement_timeout = 0")
        cursor.execute("SELECT pg_advisory_lock(%s)", [lock])
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [lock])
            cursor.execute("RESET lock_timeout; RESET statement_timeout")


def take_turn(key: str) -> None:
    """Wait for the turn of `key`, and keep it until the current transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [key])


def take_turn_sharing(shared: str, key: str) -> None:
    """Wait for the turns of `shared` without ending others, and then for the turn of `key`.

    Transactions that share a turn run concurrently; one that takes the turn waits for all of them,
    and later ones wait for it. Must be the first statement of a transaction, which then holds no
    other lock while it waits for `shared`.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock_shared(hashtextextended(%s, 0)),"
            " pg_advisory_xact_lock(hashtextextended(%s, 0))",
            [shared, key],
        )
