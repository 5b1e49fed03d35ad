"""Current failures and long waits of all apps, grouped by reason and cause, from one query.

The query reads a limited number of rows of each kind: the newest failed rows and the oldest
waiting rows. Its cost does not depend on the number of failures.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.db.models import Count, F, Min, QuerySet, TextField, Value, Window
from django.db.models.functions import Cast, Left, Now
from django.urls import reverse
from django.utils.safestring import SafeString

from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.causes import key_of, title_of
from gpuplatform.adminkit.display.counts import capped
from gpuplatform.adminkit.display.text import condense, shortened

SHOWN_GROUPS = 40
MAX_ROWS = 1_000
"""Maximum number of rows of each kind."""
STUCK_AFTER: Final = timedelta(minutes=15)
"""The duration after which a waiting row is displayed; an image pull can take minutes."""
SAME_TIME: Final = timedelta(minutes=1)
"""The maximum duration between failures that count as simultaneous."""
STUCK_QUERY: Final = {"age": "over15min"}
"""The query parameters of a list that select the rows older than `STUCK_AFTER`."""

_MESSAGE_LENGTH = 400


@dataclass(frozen=True, slots=True)
class FailingRows:
    """The failed or waiting rows of a model, and the URLs of their list and pages."""

    noun: str
    """The singular noun of a row, such as `unit`."""
    rows: QuerySet[Any]
    list_url: str
    page: str
    """The name of the URL of a row's page."""
    reason: str = "reason"
    message: str = "message"
    cause: str = ""
    """The column with the cause, or an empty string if the model has none."""
    since: str = "phase_since"
    name: str = "name"
    order: str = "-pk"
    """An order with an index; the query reads the first `MAX_ROWS` rows in this order."""
    waits: bool = False
    """Whether the rows are waiting rather than failed; only long waits are displayed."""


@dataclass(frozen=True, slots=True)
class FailingGroup:
    """Rows of one kind that failed or wait with the same reason and cause.

    The name and the message belong to the newest failure or to the longest wait.
    """

    badge: SafeString
    title: str
    url: str
    name: str
    page_url: str
    message: str
    since: SafeString
    kind: FailingRows
    phase: str
    count: int
    moment: datetime
    others: str = ""
    """The number of other rows in the group, or an empty string if there are none."""
    first: SafeString = SafeString("")  # noqa: RUF009 - a string
    """The age of the first failure, or an empty string if the failures are simultaneous."""


@dataclass(frozen=True, slots=True)
class Failing:
    """The groups of failures, newest first, with their totals, and the groups of waiting rows."""

    groups: Sequence[FailingGroup] = ()
    further: int = 0
    waiting: Sequence[FailingGroup] = ()
    """The groups of waiting rows, longest wait first."""
    waiting_total: str = "0"
    sums: Sequence[tuple[str, str]] = ()
    """The number of failed rows with their noun, and the URL of their list, for each kind."""
    total: str = "0"
    """The number of failed rows, such as `1,000+` if the limit was reached."""


def failing_now(kinds: Sequence[FailingRows]) -> Failing:
    """Return the failures and the long waits of all kinds, with one query."""
    if not kinds:
        return Failing()
    first, *others = [_groups_of(place, kind) for place, kind in enumerate(kinds)]
    found = list(first.union(*others, all=True)) if others else list(first)
    groups = [_group(kinds[place], *line) for place, *line in found]
    groups.sort(key=lambda group: group.moment)
    failed = [group for group in reversed(groups) if not group.kind.waits]
    waiting = [group for group in groups if group.kind.waits]
    sums = _sums(failed)
    return Failing(
        groups=failed[:SHOWN_GROUPS],
        further=max(len(failed) - SHOWN_GROUPS, 0),
        waiting=waiting[:SHOWN_GROUPS],
        waiting_total=_total(_sums(waiting)),
        sums=[(_counted(noun, sums[noun]), _url_of(noun, failed)) for noun in sums],
        total=_total(sums),
    )


def _groups_of(place: int, kind: FailingRows) -> QuerySet[Any, Any]:
    limited = kind.rows.order_by(kind.order).values("pk")[:MAX_ROWS]
    rows: QuerySet[Any] = QuerySet(kind.rows.model).filter(pk__in=limited)
    if kind.waits:
        rows = rows.filter(**{f"{kind.since}__lt": Now() - STUCK_AFTER})
    alike = [F("phase"), F("failing_reason"), F("failing_cause")]
    cause = F(kind.cause) if kind.cause else Value("")
    rows = rows.annotate(
        failing_place=Value(place),
        failing_phase=Cast(F("phase"), TextField()),
        failing_reason=Cast(F(kind.reason), TextField()),
        failing_cause=Cast(cause, TextField()),
        failing_message=Left(kind.message, _MESSAGE_LENGTH),
        failing_name=Cast(F(kind.name), TextField()),
        failing_number=Window(Count("pk"), partition_by=alike),
        failing_first=Window(Min(kind.since), partition_by=alike),
    )
    shown_first = kind.since if kind.waits else f"-{kind.since}"
    keys = ("failing_phase", "failing_reason", "failing_cause")
    groups = rows.order_by(*keys, shown_first).distinct(*keys)
    return groups.values_list(
        "failing_place",
        "failing_phase",
        "failing_reason",
        "failing_cause",
        "failing_message",
        kind.since,
        "failing_name",
        "pk",
        "failing_number",
        "failing_first",
    )


def _group(kind: FailingRows, *line: Any) -> FailingGroup:
    phase, reason, cause, message, since, name, number, count, first = line
    query = {"phase": phase} | ({"reason": key_of(reason, cause)} if reason else {})
    title = title_of(reason, cause)
    badge = shape_badge(Shape.FAILED, title or "Unknown reason")
    if kind.waits:
        query |= STUCK_QUERY
        badge = shape_badge(Shape.WAITING, title or phase)
    return FailingGroup(
        badge=badge,
        title=_counted(kind.noun, count),
        url=f"{kind.list_url}?{urlencode(query)}",
        name=shortened(name, 40),
        page_url=reverse(kind.page, args=[number]),
        message=shortened(condense(message), 240),
        since=age_html(since),
        kind=kind,
        phase=phase,
        count=count,
        moment=since,
        others=capped(count - 1, MAX_ROWS - 1) if count > 1 else "",
        first=age_html(first) if since - first > SAME_TIME else SafeString(""),
    )


def _sums(groups: Sequence[FailingGroup]) -> Counter[str]:
    """Return the number of rows in the groups by noun."""
    sums: Counter[str] = Counter()
    for group in groups:
        sums[group.kind.noun] += group.count
    return sums


def _total(sums: Mapping[str, int]) -> str:
    is_cut = any(number >= MAX_ROWS for number in sums.values())
    return f"{sum(sums.values()):,}{'+' if is_cut else ''}"


def _url_of(noun: str, groups: Sequence[FailingGroup]) -> str:
    """Return the URL of the list for a noun, filtered by phase if all its groups share one."""
    found = [group for group in groups if group.kind.noun == noun]
    phases = {group.phase for group in found}
    query = f"?{urlencode({'phase': phases.pop()})}" if len(phases) == 1 else ""
    return found[0].kind.list_url + query


def _counted(noun: str, count: int) -> str:
    return f"{capped(count, MAX_ROWS)} {noun}{'' if count == 1 else 's'}"
