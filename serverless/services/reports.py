"""Stores the reports of workers about the starts and results of invocations.

State changes follow `INVOCATION_TRANSITIONS`. A late report has no effect.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Case, F, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce, Greatest, Least, Now

from gpuplatform.lifecycle.transition import transition
from serverless.models import Invocation
from serverless.phases import (
    FAILED_STATES,
    INVOCATION_TRANSITIONS,
    NEVER_STARTED,
    FailureClass,
    InvocationState,
)
from serverless.queue.messages import EndReport, Report, StartReport
from serverless.services.endings import invocation_expire, invocation_republish
from serverless.services.webhooks import WEBHOOK_RESET


@dataclass(frozen=True, slots=True)
class StoreResult:
    """The outcome of storing a batch of reports."""

    late: int
    """Number of reports that changed nothing: repetitions, and reports after the end."""
    locked: frozenset[int]
    """Row ids of invocations whose reports were not stored because the rows were locked."""


def reports_store(reports: Sequence[Report]) -> StoreResult:
    """Store reports in one transaction, without waiting for locked rows.

    The caller has checked the receipts. A report about an earlier publication and a start after
    the end change nothing. If there are two ends, `_replaceable` selects one.
    """
    late = 0
    # The end includes everything that the start of the same delivery reports.
    ended = {_delivery(one) for one in reports if isinstance(one, EndReport)}
    keys = frozenset(one.key for one in reports)
    rows = Invocation.objects.filter(pk__in=keys).order_by()
    with transaction.atomic():
        free = set(rows.select_for_update(skip_locked=True).values_list("pk", flat=True))
        for report in (one for one in reports if one.key in free):
            if isinstance(report, EndReport):
                late += not _store(report)
            elif _delivery(report) not in ended:
                late += not _store_start(report)
    return StoreResult(late, keys - free)


def _delivery(report: Report) -> tuple[int, int, int]:
    return report.key, report.publication, report.attempt


def _store_start(report: StartReport) -> int:
    rows, began = _rows(report), _plausible(report.started_at)
    is_newest = When(attempts__lte=report.attempt, then=Value(report.worker))
    changes = {
        **_common(report),
        "worker": Case(is_newest, default="worker"),
        "started_at": Coalesce("started_at", began),
        "attempted_at": Greatest(Coalesce("attempted_at", began), began),
    }
    state = InvocationState.RUNNING
    return transition(
        rows, INVOCATION_TRANSITIONS, state, column="state", **changes
    ) or rows.filter(state=state).update(**changes)


def _store(report: EndReport) -> int:
    if report.failure_class != FailureClass.QUEUE_TIMEOUT:
        return _store_end(report.without_cut_success())  # Older sidecars report cut successes.
    # The clock of the database decides, because the clock of a node can be wrong.
    return invocation_expire(report.key, report.publication) or invocation_republish(
        report.key, report.publication
    )


def _store_end(report: EndReport) -> int:
    rows, state = _rows(report), InvocationState(report.state)
    began = _plausible(report.started_at)
    changes = {
        **_common(report),
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
        "is_truncated": report.is_cut,
    }
    return transition(
        rows, INVOCATION_TRANSITIONS, state, column="state", **changes
    ) or rows.filter(_replaceable(report)).update(state=state, **changes, **WEBHOOK_RESET)


def _replaceable(report: EndReport) -> Q:
    """Return the condition for ends that this report replaces.

    The outcome does not depend on the order in which reports are stored. A success replaces a
    failure, and a newer attempt replaces an older attempt with the same result. The end that a
    worker reports replaces an end that the platform recorded, such as a dead letter. An invocation
    that expired before its start was recorded remains expired, like a cancelled one.
    """
    is_older = Q(result_attempt__lt=report.attempt)
    failed = Q(state__in=FAILED_STATES) & ~Q(failure_class__in=NEVER_STARTED)
    if report.state == InvocationState.SUCCEEDED.value:
        return failed | (Q(state=InvocationState.SUCCEEDED) & is_older)
    return failed & is_older


def _rows(report: Report) -> QuerySet[Invocation]:
    return Invocation.objects.filter(pk=report.key, publications=report.publication)


def _common(report: Report) -> dict[str, Any]:
    """Return the columns that every report sets: the invocation was published and delivered."""
    return {
        "attempts": Greatest("attempts", Value(report.attempt)),
        "published_at": Coalesce("published_at", Now()),
        "stream_sequence": Coalesce("stream_sequence", Value(report.sequence)),
    }


def _plausible(moment: datetime) -> Any:
    """Return a time of a worker's clock, limited to the time from acceptance to now."""
    return Greatest(F("accepted_at"), Least(Now(), Value(moment)))
