"""What is failing right now, by reason, from all apps in one query.

At most so many of the newest failed rows of each kind are looked at, so that a bad day costs no
more than a good one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, F, QuerySet, TextField, Value, Window
from django.db.models.functions import Cast, Left
from django.urls import reverse
from django.utils.safestring import SafeString

from gpuplatform.adminkit.age import age_html
from gpuplatform.adminkit.badges import phase_badge
from gpuplatform.adminkit.counts import capped
from gpuplatform.adminkit.text import essence, shortened, words

SHOWN_GROUPS = 10
MOST_ROWS = 1_000
"""So many of the newest failed rows of a kind are grouped."""

_MESSAGE_LENGTH = 400


@dataclass(frozen=True, slots=True)
class FailingRows:
    """An app's failed rows, and where a reader finds them."""

    noun: str
    """What one of them is called: `unit`."""
    rows: QuerySet[Any]
    list_url: str
    page: str
    """Name of the address of one row's page."""
    reason: str = "reason"
    message: str = "message"
    since: str = "phase_since"
    name: str = "name"
    newest_by: str = "pk"
    """What an index has them in the order of."""


@dataclass(frozen=True, slots=True)
class FailingGroup:
    """Objects of one kind that fail for the same reason; name and message are the newest one's."""

    badge: SafeString
    title: str
    url: str
    name: str
    page_url: str
    message: str
    since: SafeString
    order: datetime


@dataclass(frozen=True, slots=True)
class Failing:
    """Everything that fails: the groups to be shown, newest first, and the sums by noun."""

    groups: Sequence[FailingGroup] = ()
    further: int = 0
    sums: Sequence[str] = ()
    total: str = "0"
    """Those that were looked at; `1000+` if there are more."""


def failing_now(kinds: Sequence[FailingRows]) -> Failing:
    """Return what fails, in one query."""
    if not kinds:
        return Failing()
    first, *others = [_groups_of(place, kind) for place, kind in enumerate(kinds)]
    found = list(first.union(*others, all=True)) if others else list(first)
    groups = [_group(kinds[place], *line) for place, *line in found]
    groups.sort(key=lambda group: group.order, reverse=True)
    sums: dict[str, int] = {}
    for place, *line in found:
        sums[kinds[place].noun] = sums.get(kinds[place].noun, 0) + line[-1]
    return Failing(
        groups=groups[:SHOWN_GROUPS],
        further=max(len(groups) - SHOWN_GROUPS, 0),
        sums=[_number_of(noun, sums[noun]) for noun in sums],
        total=_total(sums),
    )


def _groups_of(place: int, kind: FailingRows) -> QuerySet[Any, Any]:
    newest = kind.rows.order_by(f"-{kind.newest_by}").values("pk")[:MOST_ROWS]
    rows: QuerySet[Any] = QuerySet(kind.rows.model).filter(pk__in=newest)
    rows = rows.annotate(
        failing_place=Value(place),
        failing_reason=Cast(F(kind.reason), TextField()),
        failing_message=Left(kind.message, _MESSAGE_LENGTH),
        failing_name=Cast(F(kind.name), TextField()),
        failing_number=Window(Count("pk"), partition_by=[F(kind.reason)]),
    )
    groups = rows.order_by(kind.reason, f"-{kind.since}").distinct(kind.reason)
    return groups.values_list(
        "failing_place",
        "failing_reason",
        "failing_message",
        kind.since,
        "failing_name",
        "pk",
        "failing_number",
    )


def _group(kind: FailingRows, *line: Any) -> FailingGroup:
    reason, message, since, name, number, count = line
    query = {"phase": "Failed", "why": reason}
    return FailingGroup(
        badge=phase_badge("Failed", words(reason) or "No reason told"),
        title=_number_of(kind.noun, count),
        url=f"{kind.list_url}?{urlencode(query)}",
        name=shortened(name, 40),
        page_url=reverse(kind.page, args=[number]),
        message=shortened(essence(message), 240),
        since=age_html(since),
        order=since,
    )


def _total(sums: Mapping[str, int]) -> str:
    is_cut = any(number >= MOST_ROWS for number in sums.values())
    return f"{sum(sums.values())}{'+' if is_cut else ''}"


def _number_of(noun: str, count: int) -> str:
    return f"{capped(count, MOST_ROWS)} {noun}{'' if count == 1 else 's'}"
