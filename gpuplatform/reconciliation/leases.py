"""Row leases, which ensure that one worker at a time processes a row.

A lease avoids duplicate work; it does not make a write safe. The token guards every write of a
run, so that a worker that lost its lease records nothing. All times are database times, because
the clocks of workers can differ.
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
"""Number of renewals during one lease, so that two renewals can fail."""

RowT = TypeVar("RowT", bound=LeasedRow)

_FREE = Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lt=Now())


@dataclass(frozen=True, slots=True)
class RowLease(Generic[RowT]):
    """A claimed row, and the token that guards the writes to the row."""

    row: RowT
    token: uuid.UUID

    def guarded(self) -> QuerySet[RowT]:
        """Return a queryset with the row, which is empty if another worker holds the lease."""
        return type(self.row)._default_manager.filter(pk=self.row.pk, lease_token=self.token)  # noqa: SLF001 - Django's documented name


def claim(queryset: QuerySet[RowT], pk: int, **changes: object) -> RowLease[RowT] | None:
    """Claim the row `pk` of `queryset` if it is due and free, and set the columns in `changes`.

    One guarded update claims the row, so that only one of two workers succeeds.

    Returns:
        The lease, or `None` if the row was not claimed.
    """
    token = uuid.uuid4()
    free = queryset.filter(_FREE, pk=pk, due_at__lte=Now())
    query: Any = free.query.chain(UpdateQuery)  # The type stubs lack the API of updates.
    expires_at = Now() + timedelta(seconds=settings.LEASE_SECONDS)
    query.add_update_values({"lease_token": token, "lease_expires_at": expires_at, **changes})
    try:
        sql, values = query.get_compiler(connection=connection).as_sql()
    except EmptyResultSet:  # No row can match, for example with `kind IN ()`.
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
    """Mark rows due now, also during a run. Return the number of rows."""
    return queryset.update(due_seq=F("due_seq") + 1, due_at=Now())


def mark_due_in(queryset: QuerySet[RowT], seconds: float) -> int:
    """Mark rows due in `seconds`. Return the number of rows.

    Use this function if an event is expected earlier. If it does not arrive, the sweep finds the
    rows, so no message is needed.
    """
    due_at = Now() + timedelta(seconds=seconds)
    return queryset.update(due_seq=F("due_seq") + 1, due_at=due_at)


def mark_changed(queryset: QuerySet[RowT]) -> list[int]:
    """Mark rows due now. Return the ids of the rows that need a message.

    A row that is already due and free has a queued message, and the end of a run enqueues a row
    that was marked during the run.
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
    """The leases of this process, and the thread that renews them until none remains."""

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
