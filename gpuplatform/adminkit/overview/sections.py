"""The template context of the overview: health, failures, capacity, charts and counts.

Each page of the admin contributes a section about its rows. The number of queries does not depend
on the number of rows: large tables are counted up to a cap, and samples provide higher counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString

from gpuplatform.adminkit.detail.panels import RelatedRow
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import Shape, phase_badge
from gpuplatform.adminkit.display.counts import capped_counts
from gpuplatform.adminkit.overview.capacity import USES, capacity_view
from gpuplatform.adminkit.overview.failing import FailingRows, failing_now
from gpuplatform.adminkit.overview.health import health_summary, platform_health
from gpuplatform.adminkit.overview.pace import pace
from gpuplatform.clock import now
from gpuplatform.samples.capacity import Capacity
from gpuplatform.samples.selectors import buckets_of_a_day, latest_capacity, latest_sample

LIVE_CAP = 1_000
"""Maximum number of rows that the page counts; samples provide higher counts."""


@dataclass(frozen=True, slots=True)
class CountedRows:
    """Rows to count by phase; `sampled` is their key in the samples."""

    title: str
    rows: QuerySet[Any]
    phases: Sequence[str]
    url: str
    sampled: str = ""


@dataclass(frozen=True, slots=True)
class Count:
    """The number of rows in a phase, and the URL of their list."""

    badge: SafeString
    number: str
    url: str


@dataclass(frozen=True, slots=True)
class Tally:
    """The numbers of rows of a model in each phase."""

    title: str
    url: str
    counts: Sequence[Count]


@dataclass(frozen=True, slots=True)
class OverviewSection:
    """The contribution of a page to the overview."""

    counted: Sequence[CountedRows] = ()
    failing: Sequence[FailingRows] = ()
    latest: Sequence[RelatedRow] = ()


_SPEC_PERMISSION = "inventory.view_gpuspec"
_OPERATION_PERMISSION = "operations.view_operation"
_UNIT_PERMISSION = "units.view_activeunit"
_STOCK_PERMISSION = "units.view_stockunit"


def overview_context(request: HttpRequest, sections: Sequence[OverviewSection]) -> dict[str, Any]:
    """Return the template context of `admin/index.html`."""
    moment, sample = now(), latest_sample()
    at, capacity = latest_capacity()
    health = platform_health(sample, moment)
    failing = [rows for section in sections for rows in section.failing]
    return {
        "health": health,
        "health_badge": health_summary(health),
        "troubles": [part for part in health if part.shape is Shape.FAILED],
        "failing": failing_now(failing),
        "sees_failing": bool(failing),
        "tallies": _tallies([rows for one in sections for rows in one.counted], capacity),
        "latest": [line for section in sections for line in section.latest],
        **_capacity(request, at, capacity),
        **_pace(request, sample, moment),
    }


def _tallies(counted: Sequence[CountedRows], capacity: Capacity | None) -> list[Tally]:
    sets = [one.rows.filter(phase=phase) for one in counted for phase in one.phases]
    numbers = iter(capped_counts(sets, cap=LIVE_CAP))
    known = {} if capacity is None else capacity.counts
    return [
        _tally(one, {phase: next(numbers) for phase in one.phases}, known.get(one.sampled, {}))
        for one in counted
    ]


def _tally(one: CountedRows, numbers: dict[str, int], sampled: Mapping[str, int]) -> Tally:
    def text(phase: str) -> str:
        """Return the live count or, if it reached the cap, the count of the samples."""
        if numbers[phase] < LIVE_CAP:
            return str(numbers[phase])
        known = sampled.get(phase, 0)
        return f"{known:,}" if known >= LIVE_CAP else f"{LIVE_CAP:,}+"

    return Tally(
        title=one.title,
        url=one.url,
        counts=[
            Count(phase_badge(phase), text(phase), f"{one.url}?phase={phase}")
            for phase, number in numbers.items()
            if number
        ],
    )


def _capacity(
    request: HttpRequest, at: datetime | None, capacity: Capacity | None
) -> dict[str, Any]:
    if not request.user.has_perm(_SPEC_PERMISSION):
        return {}
    url = reverse("admin:inventory_gpuspec_changelist")
    sees_stock = request.user.has_perm(_STOCK_PERMISSION)
    return {
        "shows_capacity": True,
        "capacity": None
        if capacity is None
        else capacity_view(capacity, lambda name: f"{url}?q={name}"),
        "capacity_at": age_html(at) if at else "",
        "specs_url": url,
        "stock_url": reverse("admin:units_stockunit_changelist") if sees_stock else "",
        "legend": USES.items(),
        "knows_cluster": settings.KUBE_MODE != "off",
    }


def _pace(request: HttpRequest, sample: Any, moment: datetime) -> dict[str, Any]:
    shows_operations, shows_claims = (
        request.user.has_perm(one) for one in (_OPERATION_PERMISSION, _UNIT_PERMISSION)
    )
    if not shows_operations and not shows_claims:
        return {}
    return {
        "pace": pace(buckets_of_a_day(), sample, moment),
        "shows_operations": shows_operations,
        "shows_claims": shows_claims,
    }
