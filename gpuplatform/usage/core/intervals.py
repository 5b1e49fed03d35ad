"""How a sight and an absence change the interval of a unit. Pure.

The rules have the names of the model of the ledger, which explored all interleavings of the
steps of a unit with an observer, lost nodes and a restored database.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from gpuplatform.usage.core.sights import Sight

TOLERANCE: Final = timedelta(seconds=5)
"""The time in which one pod may replace another without a gap: the unit keeps its GPUs."""

EXACT: Final = timedelta(seconds=2)
"""An end is observed, and not estimated, if its uncertainty is at most this long."""


@dataclass(frozen=True, slots=True)
class Span:
    """The part of an interval that sights and absences change."""

    started_at: datetime
    seen_at: datetime
    """Time until which the GPUs are known to have been held. Nothing later is charged."""
    pod_uid: str = ""
    """UID of the last seen pod, or an empty string before the first sight."""
    bound_at: datetime | None = None
    """Time at which the last seen pod was bound to its node."""
    finished_at: datetime | None = None
    """Time at which the last seen pod released its GPUs, or `None` if it is not known."""
    ready_since: datetime | None = None
    """Time since which the last seen pod was ready, or `None` if it was not ready."""
    ready_seconds: float = 0.0
    """Time in seconds in which a pod was ready, until `seen_at`."""

    @property
    def charged_until(self) -> datetime:
        """The end of the charge (rules `seenend` and `graceend`)."""
        known = self.seen_at if self.finished_at is None else min(self.seen_at, self.finished_at)
        return max(self.started_at, known)


@dataclass(frozen=True, slots=True)
class Seen:
    """The result of a sight: the interval after it, and the next part if one begins."""

    span: Span
    next_part: Span | None = None
    """Set if the pod was bound after a gap, in which the unit waited for GPUs (rule `parts`). The
    interval then ends where it was last seen."""


def seen(span: Span, sight: Sight, now: datetime) -> Seen:
    """Return an open interval after a sight. An older sight has no effect.

    `now` is the time of the database; the clocks of nodes may be ahead of it.
    """
    bound_at, at = min(sight.bound_at, now), min(sight.at, now)
    if at < span.started_at or _is_known(span, sight):
        return Seen(span)
    if bound_at > span.charged_until + TOLERANCE:
        return Seen(span, _advanced(Span(bound_at, bound_at), sight, at))
    return Seen(_advanced(span, sight, at))


def _is_known(span: Span, sight: Sight) -> bool:
    """Return whether a sight is of a pod that another one replaced, or whose end is known."""
    if sight.pod_uid == span.pod_uid:
        return span.finished_at is not None
    if span.bound_at is None:
        return False
    # Times of the cluster have whole seconds: of two pods of a second, the running one is newer.
    return sight.bound_at < span.bound_at or (sight.bound_at == span.bound_at and sight.is_end)


def _advanced(span: Span, sight: Sight, at: datetime) -> Span:
    until = max(span.seen_at, at)
    ready = span.ready_seconds
    since = span.ready_since if sight.is_end else sight.ready_since
    if since is not None:
        ready += max((until - max(since, span.seen_at)).total_seconds(), 0.0)
    return replace(
        span,
        seen_at=until,
        pod_uid=sight.pod_uid,
        bound_at=sight.bound_at,
        finished_at=max(span.started_at, at) if sight.is_end else None,
        ready_since=None if sight.is_end else sight.ready_since,
        ready_seconds=ready,
    )


@dataclass(frozen=True, slots=True)
class End:
    """The end of an interval."""

    at: datetime
    uncertain_seconds: float
    """Time in seconds between the last proof of use and the first proof of absence."""

    @property
    def is_observed(self) -> bool:
        """Whether the end is exact, to `EXACT`."""
        return self.uncertain_seconds <= EXACT.total_seconds()


def end_of(span: Span, absent_at: datetime) -> End:
    """Return the end of an interval whose pods were first found absent at `absent_at`."""
    at = span.charged_until
    if span.finished_at is not None and span.finished_at <= span.seen_at:
        return End(at, 0.0)
    return End(at, max((absent_at - at).total_seconds(), 0.0))


def refined(span: Span, end: End, sight: Sight) -> Span | None:
    """Return an ended interval after a late proof of its end, or `None` if nothing changes.

    The proof can arrive after the absence: the watch and the reconcilers are not ordered. It is
    used only if it lies between the last sight and the first absence.
    """
    if not sight.is_end or span.finished_at is not None or end.uncertain_seconds <= 0:
        return None
    absent_at = end.at + timedelta(seconds=end.uncertain_seconds)
    is_bound_before = sight.bound_at <= end.at + TOLERANCE
    if not (is_bound_before and end.at < sight.at <= absent_at):
        return None
    return _advanced(span, sight, sight.at)
