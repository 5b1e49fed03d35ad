"""Entries and seals of tests, which the triggers of the database would reject."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction

from gpuplatform.audit.models import AuditEntry, Outcome
from gpuplatform.audit.selectors import unsealed
from gpuplatform.audit.services.entries import Entry, entry_insert
from gpuplatform.audit.services.seals import entries_seal

DEADLINE_SECONDS = 60.0


def inserted(name: str) -> int:
    """Insert an entry, and return its id."""
    entry_insert(Entry(outcome=Outcome.ACCEPTED, verb="create", kind="GPUUnit", name=name))
    return AuditEntry.objects.filter(object_name=name).values_list("pk", flat=True)[0]


def seal_all() -> int:
    """Seal all entries together; return their number.

    Transactions in the databases of parallel tests can be older than those of the entries, and
    would delay the seal of some of them. So this waits until they have ended.
    """
    until, pause = time.monotonic() + DEADLINE_SECONDS, threading.Event()
    while _has_recent():
        assert time.monotonic() < until, "an open transaction prevents the seal"
        pause.wait(0.01)
    number = entries_seal()
    assert unsealed()[0] == 0
    return number


def _has_recent() -> bool:
    """Return whether an older transaction than that of an entry is open."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM audit_auditentry WHERE"
            " xact >= pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
            " AND xact < pg_snapshot_xmax(pg_current_snapshot())::text::bigint)"
        )
        return bool(cursor.fetchone()[0])


@contextmanager
def tampering() -> Iterator[None]:
    """Change rows as a person who controls the database can: triggers are not executed."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        yield


def tampered(statement: str, *values: Any) -> None:
    """Execute a statement without triggers."""
    with tampering(), connection.cursor() as cursor:
        cursor.execute(statement, values)


@contextmanager
def open_transaction(write: Callable[[], object]) -> Iterator[None]:
    """Write in a transaction of another connection, which stays open during the block."""
    written, done = threading.Event(), threading.Event()

    def work() -> None:
        try:
            with transaction.atomic():
                write()
                written.set()
                done.wait(DEADLINE_SECONDS)
        finally:
            connection.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        assert written.wait(DEADLINE_SECONDS)
        yield
    finally:
        done.set()
        thread.join(DEADLINE_SECONDS)
