"""Row leases: one worker at a time processes a row.

A lease avoids duplicate work; it does not make a write safe. Every write of the run is guarded by
the token, so a worker that lost its lease records nothing. Times are those of the database, so
that the clocks of workers do not matter.
"""

import logging
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Generic, TypeVar

from django.conf import settings
from django.core.exceptions import EmptyResultSet
from django.db import Error as DatabaseFault
from django.db import connection
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now
from django.db.models.sql import UpdateQuery

from gpuplatform.process_local import ProcessLocal
from gpuplatform.reconciliation.models import LeasedRow

logger = logging.getLogger(__name__)

RENEWALS_PER_LEASE = 3
"""A lease survives two missed renewals."""

RowT = TypeVar("RowT", bound=LeasedRow)

_FREE = Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lt=Now())


@dataclass(frozen=True, slots=True)
class RowLease(Generic[RowT]):
    """Proof of a claim: the row as it was claimed, and the token that guards what follows."""

    row: RowT
    token: uuid.UUID

    def guarded(self) -> QuerySet[RowT]:
        """Return the row as a queryset, which is empty once another worker holds the lease."""
        return type(self.row)._default_manager.filter(pk=self.row.pk, lease_token=self.token)  # noqa: SLF001 - Django's documented name


def claim(queryset: QuerySet[RowT], pk: int, **changes: object) -> RowLease[RowT] | None:
    """Claim row `pk` of `queryset` if it is due and free; `changes` sets further columns.

    One guarded update: of two workers one gets None.
    """
    token = uuid.uuid4()
    free = queryset.filter(_FREE, pk=pk, due_at__lte=Now())
    query: Any = free.query.chain(UpdateQuery)  # The types omit the API of updates.
    expires_at = Now() + timedelta(seconds=settings.LEASE_SECONDS)
    query.add_update_values({"lease_token": token, "lease_expires_at": expires_at, **changes})
    try:
        sql, values = query.get_compiler(connection=connection).as_sql()
    except EmptyResultSet:  # Nothing can match, for example `kind IN ()`.
        return None
    manager = queryset.model._default_manager  # noqa: SLF001 - as above
    for row in manager.raw(f"{sql} RETURNING *", values):
        return RowLease(row, token)
    return None


def due_ids(queryset: QuerySet[RowT], limit: int) -> list[int]:
    """Return the ids of at most `limit` due rows without a lease, sorted by due time."""
    due = queryset.filter(_FREE, due_at__lte=Now()).order_by("due_at")
    return list(due.values_list("pk", flat=True)[:limit])


def mark_due(queryset: QuerySet[RowT]) -> int:
    """Mark rows due now, also during a run; return the number of rows."""
    return queryset.update(due_seq=F("due_seq") + 1, due_at=Now())


def mark_due_in(queryset: QuerySet[RowT], seconds: float) -> int:
    """Mark rows due in `seconds`, where an event is expected earlier; return the number of rows.

    Without the event the sweep finds them; no message is needed.
    """
    due_at = Now() + timedelta(seconds=seconds)
    return queryset.update(due_seq=F("due_seq") + 1, due_at=due_at)


def mark_changed(queryset: QuerySet[RowT]) -> list[int]:
    """Mark rows due now; return the ids of rows that no queued message covers yet.

    Only the first mark of a row needs a message: the worker of a due and free row reads it after
    this mark, and the end of a run enqueues the row again.
    """
    waits = _FREE & Q(due_at__lte=Now())
    others = list(queryset.exclude(waits, due_at__isnull=False).values_list("id", flat=True))
    if not others:
        return []
    table = connection.ops.quote_name(queryset.model._meta.db_table)  # noqa: SLF001 - Django's public name
    sql = (
        f"UPDATE {table} SET due_seq = due_seq + 1, due_at = now() WHERE id = ANY(%s)"  # noqa: S608 - a table of the platform
        " RETURNING id, lease_expires_at > now()"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [others])
        return [int(row_id) for row_id, is_leased in cursor.fetchall() if not is_leased]


class _Renewals:
    """The leases that this process renews, and the thread that does; it ends when none is left."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.held: dict[uuid.UUID, RowLease[Any]] = {}
        self.wake = threading.Event()
        self.thread: threading.Thread | None = None

    def add(self, lease: RowLease[Any]) -> None:
        with self.lock:
            self.held[lease.token] = lease
            if self.thread is None:
                self.thread = threading.Thread(target=self._run, name="leases", daemon=True)
                self.thread.start()

    def remove(self, lease: RowLease[Any]) -> None:
        with self.lock:
            self.held.pop(lease.token, None)

    def _run(self) -> None:
        while True:
            self.wake.wait(settings.LEASE_SECONDS / RENEWALS_PER_LEASE)
            with self.lock:
                leases = list(self.held.values())
                if not leases:
                    self.thread = None
                    return
            try:
                for lease in leases:
                    expires_at = Now() + timedelta(seconds=settings.LEASE_SECONDS)
                    lease.guarded().update(lease_expires_at=expires_at)
            except DatabaseFault as error:
                logger.warning("leases could not be renewed: %s", error)
            finally:
                connection.close()


_RENEWALS: Final = ProcessLocal(_Renewals)


@contextmanager
def renewing(lease: RowLease[Any]) -> Iterator[None]:
    """Renew `lease` in the background while the block runs."""
    renewals = _RENEWALS.get()
    renewals.add(lease)
    try:
        yield
    finally:
        renewals.remove(lease)
