"""Opens, extends and closes the intervals of units.

Each function runs in its own transaction, or in the one of the caller. All of them can be
repeated. Rows of intervals are locked last, after all other rows. Comments name rules of the
model of the ledger.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import QuerySet, Value
from django.db.models.functions import Least

from gpuplatform.usage.core.intervals import End, Seen, Span, end_of, refined, seen
from gpuplatform.usage.core.sights import Sight
from gpuplatform.usage.models import EndBasis, UsageEpoch, UsageInterval

_BATCH: Final = 1000

_SPAN: Final = (
    "started_at",
    "seen_at",
    "pod_uid",
    "bound_at",
    "finished_at",
    "ready_since",
    "ready_seconds",
)
"""The columns of a `Span`."""

_USE: Final = (
    "tenant_id",
    "unit_uid",
    "unit_name",
    "source_uid",
    "spec_name",
    "product",
    "resource_name",
    "gpus",
    "cpu_millis",
    "memory_mib",
)
"""The columns of a `Use`."""


_WRITE_SPANS: Final = """
UPDATE usage_usageinterval i SET
    seen_at = s.seen_at, pod_uid = s.pod_uid, bound_at = s.bound_at,
    finished_at = s.finished_at, ready_since = s.ready_since, ready_seconds = s.ready_seconds,
    changed_from = LEAST(i.changed_from, s.changed_from)
FROM unnest(%s::bigint[], %s::timestamptz[], %s::text[], %s::timestamptz[], %s::timestamptz[],
            %s::timestamptz[], %s::float8[], %s::timestamptz[])
     AS s (id, seen_at, pod_uid, bound_at, finished_at, ready_since, ready_seconds, changed_from)
WHERE i.id = s.id
"""


@dataclass(frozen=True, slots=True)
class Use:
    """What a unit uses from the time at which it consumes a stock unit."""

    tenant_id: int
    unit_uid: str
    unit_name: str
    source_uid: str
    """UID of the consumed stock unit."""
    spec_name: str
    product: str
    resource_name: str
    gpus: int
    cpu_millis: int = 0
    memory_mib: int = 0


def database_time() -> datetime:
    """Return the current time of the database."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]  # type: ignore[no-any-return]  # rows have no types


def interval_open(use: Use) -> None:
    """Open the first interval of a consumed stock unit.

    It is called in the transaction that records the consumption (rule `opensame`). A stock unit
    that has an interval gets no second one (rule `identity`). An older interval of the unit is
    closed, because its pods are known to be absent (rule `closefirst`).
    """
    if UsageInterval.objects.filter(source_uid=use.source_uid).exists():
        return
    now = database_time()
    older = UsageInterval.objects.filter(unit_uid=use.unit_uid, ended_at__isnull=True)
    _close(older.select_for_update(no_key=True, of=("self",)).order_by("id"), now)
    last = UsageInterval.objects.filter(unit_uid=use.unit_uid).order_by("-ended_at").first()
    # The clock of the database can have been set back.
    at = now if last is None or last.ended_at is None else max(now, last.ended_at)
    UsageInterval.objects.create(
        **_columns(use, _USE), started_at=at, seen_at=at, epoch=current_epoch()
    )


def sights_record(sights: Iterable[Sight], *, may_skip: bool = False) -> None:
    """Extend the open intervals of the units that are seen, and begin a new part after a gap.

    Rows without a change are not written. If `may_skip` is true, rows that other transactions have
    locked are skipped: a later sight replaces the skipped one.
    """
    found: dict[str, list[Sight]] = {}
    for sight in sorted(sights, key=lambda one: (one.bound_at, one.is_end)):
        found.setdefault(sight.unit_uid, []).append(sight)
    uids = sorted(found)
    for begin in range(0, len(uids), _BATCH):
        with transaction.atomic():
            _record({uid: found[uid] for uid in uids[begin : begin + _BATCH]}, may_skip=may_skip)


def _record(sights: Mapping[str, Sequence[Sight]], *, may_skip: bool) -> None:
    rows = UsageInterval.objects.filter(unit_uid__in=sights, ended_at__isnull=True)
    now = database_time()
    # A lock is a write, too: rows that no sight changes are not locked.
    changing = [row.pk for row in rows if _is_changed(row, sights[row.unit_uid], now)]
    locked = rows.filter(pk__in=changing).order_by("id")
    changed: list[tuple[UsageInterval, Span]] = []
    for found in locked.select_for_update(skip_locked=may_skip, no_key=True, of=("self",)):
        row, result = found, Seen(_span(found))
        for sight in sights[row.unit_uid]:
            if result.next_part is not None:
                row, result = _next_part(row, result.span, result.next_part)
            result = seen(result.span, sight, now)
        if result.next_part is not None:
            _next_part(row, result.span, result.next_part)
        elif result.span != _span(row):
            changed.append((row, result.span))
    _write_spans(changed)
    _refine({uid: ends for uid, found in sights.items() if (ends := _ends(found))})


def _is_changed(row: UsageInterval, sights: Iterable[Sight], now: datetime) -> bool:
    """Return whether any of the sights changes an open interval."""
    span = _span(row)
    return any(seen(span, sight, now) != Seen(span) for sight in sights)


def _next_part(row: UsageInterval, last: Span, following: Span) -> tuple[UsageInterval, Seen]:
    """End `row` where it was last seen, and insert its next part; return it (rule `parts`)."""
    _write_end(row, last, end_of(last, following.started_at))
    started = max(following.started_at, last.charged_until)
    span = replace(following, started_at=started, seen_at=max(following.seen_at, started))
    part = UsageInterval.objects.create(
        **_columns(row, _USE),
        **_columns(span, _SPAN),
        part=row.part + 1,
        changed_from=started,
        epoch=current_epoch(),
    )
    return part, Seen(span)


def _write_spans(changed: Sequence[tuple[UsageInterval, Span]]) -> None:
    """Write the spans of many rows with one statement."""
    if not changed:
        return
    columns: list[list[Any]] = [[row.pk for row, _ in changed]]
    columns += [[getattr(span, name) for _, span in changed] for name in _SPAN[1:]]
    columns.append([min(_span(row).charged_until, span.charged_until) for row, span in changed])
    with connection.cursor() as cursor:
        cursor.execute(_WRITE_SPANS, columns)


def _ends(sights: Iterable[Sight]) -> list[Sight]:
    return [one for one in sights if one.is_end]


def _refine(ends: Mapping[str, Sequence[Sight]]) -> None:
    """Use late proofs of ends for intervals that were closed with an estimated end."""
    if not ends:
        return
    closed = UsageInterval.objects.filter(unit_uid__in=ends, end_basis=EndBasis.ESTIMATED)
    for row in closed.select_for_update(no_key=True, of=("self",)).order_by("id"):
        end = End(row.ended_at or row.seen_at, row.uncertain_seconds)
        for sight in ends[row.unit_uid]:
            span = refined(_span(row), end, sight)
            if span is not None and not _is_followed(row, span.charged_until):
                _write_end(row, span, End(span.charged_until, 0.0))
                break


def _is_followed(row: UsageInterval, at: datetime) -> bool:
    """Return whether another interval of the unit begins before `at` and after `row`."""
    later = UsageInterval.objects.filter(unit_uid=row.unit_uid, started_at__lt=at)
    return later.filter(started_at__gte=row.ended_at).exclude(pk=row.pk).exists()


def intervals_close(unit_uid: str, source_uid: str | None = None) -> None:
    """Close the open interval of a unit that has ended and whose pods were found absent.

    Args:
        unit_uid: UID of the unit.
        source_uid: UID of the source that was read with the absence (rule `closeseq`), or `None`
            if the resource was deleted, so that no later source can exist.
    """
    rows = UsageInterval.objects.filter(unit_uid=unit_uid, ended_at__isnull=True)
    if source_uid is not None:
        rows = rows.filter(source_uid=source_uid)
    if not rows.exists():
        return
    with transaction.atomic():
        _close(rows.select_for_update(no_key=True, of=("self",)).order_by("id"), database_time())


def intervals_close_all(units: QuerySet[Any]) -> int:
    """Close the open intervals of units whose rows are closed; return their number.

    `units` has the UIDs of all units that may exist. This closes what a late worker opened after
    the pods were found absent (rule `level`).
    """
    rows = UsageInterval.objects.filter(ended_at__isnull=True).exclude(unit_uid__in=units)
    with transaction.atomic():
        locked = rows.select_for_update(no_key=True, skip_locked=True, of=("self",)).order_by("id")
        return _close(locked, database_time())


def intervals_recover(uses: Iterable[Use], named: Collection[str]) -> None:
    """Begin a new epoch after the database was restored (rule `recovered`).

    Open intervals are closed where the database last saw their pods, unless a unit names their
    source. The intervals of units that have none for their source are opened empty: nothing
    before the recovery is charged.

    Args:
        uses: The uses of the units of the cluster.
        named: The UIDs of the sources that units of the cluster name. The pods of a unit that is
            being stopped may exist; the next observation closes its interval.
    """
    now = database_time()
    with transaction.atomic():
        UsageEpoch.objects.create(begun_at=now)
        lost = UsageInterval.objects.filter(ended_at__isnull=True).exclude(source_uid__in=named)
        _close(lost.select_for_update(no_key=True, of=("self",)).order_by("id"), now)
        for use in uses:
            interval_open(use)


def current_epoch() -> UsageEpoch:
    """Return the newest epoch. A migration inserts the first one."""
    return UsageEpoch.objects.order_by("-begun_at")[0]


def _close(locked: QuerySet[UsageInterval], absent_at: datetime) -> int:
    rows = list(locked)
    for row in rows:
        _write_end(row, _span(row), end_of(_span(row), absent_at))
    return len(rows)


def _write_end(row: UsageInterval, span: Span, end: End) -> None:
    basis = EndBasis.OBSERVED if end.is_observed else EndBasis.ESTIMATED
    before = row.ended_at or _span(row).charged_until
    UsageInterval.objects.filter(pk=row.pk).update(
        **_columns(span, _SPAN),
        ended_at=end.at,
        end_basis=basis,
        uncertain_seconds=end.uncertain_seconds,
        changed_from=Least("changed_from", Value(min(before, end.at))),
    )


def _span(row: UsageInterval) -> Span:
    return Span(**_columns(row, _SPAN))


def _columns(holder: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(holder, name) for name in names}
