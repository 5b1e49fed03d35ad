"""The rows of what relay, result store and sweep found out. Each write is guarded and repeatable.

The state of an invocation moves along its table only; what comes too late changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import Case, F, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce, Greatest, Least, Now
from django.utils.crypto import salted_hmac

from gpuplatform.lifecycle.transition import previous_phases
from serverless.models import OPEN, OPEN_STATES, OUTBOX, Function, Invocation
from serverless.phases import FAILED_STATES, INVOCATION_TRANSITIONS, FailureClass, InvocationState
from serverless.queue.messages import Finished, InvocationMessage, Report, Started

CLAIM_SECONDS: Final = 10
"""After so long without an outcome another relay takes what a relay took."""

REFUSED_SECONDS: Final = 2
"""What the queue refuses is offered again after this."""

MOST_PUBLICATIONS: Final = 10
"""An invocation that vanished from the queue so often is dead-lettered."""

RETENTION_DAYS: Final = 7
"""How long ended invocations are kept with their results. Published in the documentation."""

FUNCTION_RETENTION_DAYS: Final = 30


def move(rows: QuerySet[Invocation], to: InvocationState, **changes: Any) -> int:
    """Move those of the rows whose state allows it; return how many did."""
    allowed = previous_phases(INVOCATION_TRANSITIONS, to)
    return rows.filter(state__in=allowed).update(state=to, **changes)


def receipt_of(key: int, publication: int, invocation_id: str) -> str:
    """Return what only a worker that was given this very message can say of it."""
    value = f"{key}/{publication}/{invocation_id}"
    return salted_hmac("serverless.receipt", value, algorithm="sha256").hexdigest()


def outbox_claim(limit: int) -> list[Invocation]:
    """Take the oldest invocations that are to be put in the queue, for `CLAIM_SECONDS`.

    Those that were never offered come first: however many of one function the queue refuses, they
    keep nobody else's from it.
    """
    free = Q(relay_after__isnull=True) | Q(relay_after__lte=Now())
    tried_last = F("relay_after").asc(nulls_first=True)
    with transaction.atomic():
        waiting = Invocation.objects.filter(OUTBOX, free).order_by(tried_last, "id")
        taken = list(
            waiting.select_for_update(skip_locked=True, of=("self",)).select_related("tenant")[
                :limit
            ]
        )
        Invocation.objects.filter(pk__in=[row.pk for row in taken]).update(
            relay_after=Now() + timedelta(seconds=CLAIM_SECONDS)
        )
    return taken


def outbox_message(row: Invocation) -> InvocationMessage:
    """Return the message of a row that was taken."""
    return InvocationMessage(
        key=row.pk,
        publication=row.publications,
        invocation_id=row.invocation_id,
        receipt=receipt_of(row.pk, row.publications, row.invocation_id),
        content_type=row.content_type,
        timeout_seconds=row.timeout_seconds,
        payload=bytes(row.payload),
        headers=row.headers,
    )


def outbox_published(published: Sequence[tuple[Invocation, int]]) -> list[int]:
    """Record the number in the stream of each; return the numbers that nobody wants any more.

    Those were cancelled or ended while they were put in the queue, or are there twice.
    """
    table = connection.ops.quote_name(Invocation._meta.db_table)  # noqa: SLF001 - Django's public name
    sql = (
        f"UPDATE {table} AS row SET published_at = now(), stream_sequence = new.sequence,"  # noqa: S608 - a name of ours
        " relay_after = NULL FROM unnest(%s::bigint[], %s::int[], %s::bigint[])"
        " AS new(id, publications, sequence) WHERE row.id = new.id"
        " AND row.publications = new.publications AND row.published_at IS NULL"
        " AND row.state = ANY(%s) RETURNING row.id"
    )
    with connection.cursor() as cursor:
        cursor.execute(
            sql,
            [
                [row.pk for row, _ in published],
                [row.publications for row, _ in published],
                [sequence for _, sequence in published],
                list(OPEN_STATES),
            ],
        )
        recorded = {number for (number,) in cursor.fetchall()}
    return [
        sequence
        for row, sequence in published
        if row.pk not in recorded and not _is_recorded(row, sequence)
    ]


def _is_recorded(row: Invocation, sequence: int) -> bool:
    """Say whether another relay, or a worker's report, recorded this very message."""
    same = Invocation.objects.filter(pk=row.pk, publications=row.publications)
    return same.filter(OPEN, stream_sequence=sequence).exists()


def outbox_refused(rows: Sequence[Invocation]) -> None:
    """Offer what the queue refused again a little later."""
    Invocation.objects.filter(OUTBOX, pk__in=[row.pk for row in rows]).update(
        relay_after=Now() + timedelta(seconds=REFUSED_SECONDS)
    )


def outbox_release(rows: Sequence[Invocation]) -> None:
    """Give back what was taken and not published: the queue is away."""
    Invocation.objects.filter(OUTBOX, pk__in=[row.pk for row in rows]).update(relay_after=None)


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of reports."""

    late: int
    """So many came after the end of their invocation, or again."""
    busy: frozenset[int]
    """Invocations whose row somebody else has locked; what was said of them is not stored."""


def reports_store(reports: Sequence[Report]) -> Stored:
    """Record what workers said, in one transaction; nobody's results wait for another one's row.

    Their receipts have been checked. A report about an earlier publication changes nothing, nor
    does a start after the end; of two ends the one that `_outranked` says stays.
    """
    late = 0
    # An end says everything that the start of the same delivery says.
    ends = {(one.key, one.publication, one.attempt) for one in reports if one.type == "finished"}
    keys = frozenset(one.key for one in reports)
    rows = Invocation.objects.filter(pk__in=keys).order_by()
    with transaction.atomic():
        free = set(rows.select_for_update(skip_locked=True).values_list("pk", flat=True))
        for report in (one for one in reports if one.key in free):
            is_said = (report.key, report.publication, report.attempt) in ends
            if is_said and isinstance(report, Started):
                continue
            stored = _start(report) if isinstance(report, Started) else _finish(report)
            late += not stored
    return Stored(late, keys - free)


def _start(report: Started) -> int:
    began = _at(report.started_at)
    return move(
        _reported(report),
        InvocationState.RUNNING,
        **_known(report),
        worker=report.worker,
        started_at=Coalesce("started_at", began),
        attempted_at=began,
    ) or _reported(report).filter(state=InvocationState.RUNNING).update(
        **_known(report),
        worker=Case(
            When(attempts__lte=report.attempt, then=Value(report.worker)), default="worker"
        ),
        started_at=Coalesce("started_at", began),
        attempted_at=Greatest(Coalesce("attempted_at", began), began),
    )


def _finish(report: Finished) -> int:
    state = InvocationState(report.state)
    began = _at(report.started_at)
    changes = {
        **_known(report),
        "worker": report.worker,
        "started_at": Coalesce("started_at", began),
        "attempted_at": Coalesce("attempted_at", began),
        "completed_at": Greatest(
            F("accepted_at"), Coalesce("started_at", began), Least(Now(), report.completed_at)
        ),
        "stored_at": Now(),
        "result_attempt": report.attempt,
        "failure_class": report.failure_class,
        "error": report.error,
        "status_code": report.status_code,
        "result_content_type": report.content_type,
        "result_headers": report.headers,
        "result_body": report.body,
        "result_bytes": max(report.size, len(report.body)),
        "is_truncated": report.truncated or report.size > len(report.body),
    }
    rows = _reported(report)
    return move(rows, state, **changes) or rows.filter(_outranked(report)).update(
        state=state, **changes
    )


def _outranked(report: Finished) -> Q:
    """Return which ends this one replaces, whatever the order in which they are stored.

    An answer stands above a failure, and of two of a kind the one of the newer attempt above the
    other; below all is what the platform itself ended, such as a dead letter.
    """
    is_older = Q(result_attempt__lt=report.attempt)
    failed = Q(state__in=FAILED_STATES)
    if report.state == InvocationState.SUCCEEDED.value:
        return failed | (Q(state=InvocationState.SUCCEEDED) & is_older)
    return failed & is_older


def _reported(report: Report) -> QuerySet[Invocation]:
    return Invocation.objects.filter(pk=report.key, publications=report.publication)


def _known(report: Report) -> dict[str, Any]:
    """Return what every report proves: it was in the queue, and a worker had it."""
    return {
        "attempts": Greatest("attempts", Value(report.attempt)),
        "published_at": Coalesce("published_at", Now()),
        "stream_sequence": Coalesce("stream_sequence", Value(report.sequence)),
    }


def _at(moment: datetime) -> Any:
    """Return the moment of a worker's clock, within what this clock knows to be possible."""
    return Greatest(F("accepted_at"), Least(Now(), Value(moment)))


def invocation_dead_letter(
    key: int, publication: int, failure_class: FailureClass, error: str
) -> int:
    """Record that an invocation of that publication will be answered by nobody."""
    rows = Invocation.objects.filter(pk=key, publications=publication)
    ended = {"completed_at": Now(), "failure_class": failure_class.value, "error": error}
    return move(rows, InvocationState.DEAD_LETTERED, **ended)


def invocation_fail(key: int, publication: int, failure_class: FailureClass, error: str) -> int:
    """Record that an invocation failed without a result that could be kept."""
    rows = Invocation.objects.filter(pk=key, publications=publication)
    ended = {"completed_at": Now(), "failure_class": failure_class.value, "error": error}
    return move(rows, InvocationState.FAILED, **ended)


def invocation_republish(key: int, publication: int) -> bool:
    """Have the relay put an invocation into the queue again, from where it vanished.

    Its state stays: it may have begun. One that vanishes again and again is dead-lettered.
    """
    if publication >= MOST_PUBLICATIONS:
        why = f"It vanished from the queue {publication} times. Its operator finds out why."
        invocation_dead_letter(key, publication, FailureClass.DISPATCH_ERROR, why)
        return False
    rows = Invocation.objects.filter(OPEN, pk=key, publications=publication)
    again: dict[str, Any] = {"published_at": None, "stream_sequence": None, "relay_after": None}
    return bool(rows.update(publications=F("publications") + 1, **again))


def invocations_cancel_waiting(function: Function) -> int:
    """Cancel what waits for a function that is being deleted."""
    rows = Invocation.objects.filter(function=function)
    why = "The function was deleted before a worker began with it."
    return move(rows, InvocationState.CANCELLED, completed_at=Now(), error=why)


def invocations_abandon(function: Function) -> int:
    """End everything of a function that is gone."""
    rows = Invocation.objects.filter(function=function, state=InvocationState.RUNNING)
    why = "The function was deleted while it ran."
    failed = move(
        rows,
        InvocationState.FAILED,
        completed_at=Now(),
        failure_class=FailureClass.DISPATCH_ERROR.value,
        error=why,
    )
    return failed + invocations_cancel_waiting(function)


def invocations_prune() -> int:
    """Forget invocations that ended long ago, then functions without any; return how many."""
    old = Invocation.objects.filter(completed_at__lt=Now() - timedelta(days=RETENTION_DAYS))
    forgotten = old.filter(~OPEN).delete()[0]
    gone = Function.objects.filter(
        deleted_at__lt=Now() - timedelta(days=FUNCTION_RETENTION_DAYS), invocations__isnull=True
    )
    return forgotten + gone.delete()[0]
