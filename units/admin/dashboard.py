"""Units and stock on the first page of the admin."""

from collections.abc import Iterator
from typing import Final

from django.db.models import Exists
from django.http import HttpRequest
from django.urls import reverse

from gpuplatform.adminkit.overview.failing import FailingRows
from gpuplatform.adminkit.overview.sections import (
    CountedRows,
    OverviewSection,
    register_overview_section,
)
from units.admin.detail import LISTS, PAGES, RIGHTS
from units.models import GpuUnit, ShortNode
from units.phases import UnitPhase, UnitReason, UnitRole

TRANSIENT_PHASES: Final = frozenset(
    {UnitPhase.PENDING, UnitPhase.PROGRESSING, UnitPhase.TERMINATING}
)
"""Phases that usually pass within a minute or so."""
_TITLES: Final = {UnitRole.ACTIVE: "GPU units", UnitRole.STOCK: "Stock units"}
_NOUNS: Final = {UnitRole.ACTIVE: "unit", UnitRole.STOCK: "stock unit"}


def overview_section(request: HttpRequest) -> OverviewSection:
    """Return units and stock by phase, and those that have failed or wait for long."""
    seen = [role for role, right in RIGHTS.items() if request.user.has_perm(right)]
    return OverviewSection(
        counted=[_counted(role) for role in seen],
        failing=[rows for role in seen for rows in _failing(role)],
    )


def _counted(role: UnitRole) -> CountedRows:
    live = GpuUnit.objects.filter(deleted_at__isnull=True, role=role)
    return CountedRows(_TITLES[role], live, UnitPhase.values, reverse(LISTS[role]), role)


def _failing(role: UnitRole) -> Iterator[FailingRows]:
    """Yield those that have failed or are on lost GPUs, and those that are on their way."""
    live = GpuUnit.objects.filter(deleted_at__isnull=True, role=role)
    noun, url, page = _NOUNS[role], reverse(LISTS[role]), PAGES[role]
    failed = live.filter(phase=UnitPhase.FAILED)
    yield FailingRows(noun, failed, url, page, cause="cause")
    # Where no node is short, the database looks at no row for this.
    on_lost_gpus = live.filter(Exists(ShortNode.objects.all()), reason=UnitReason.GPUS_MISSING)
    yield FailingRows(noun, on_lost_gpus, url, page)
    on_the_way = live.filter(phase__in=TRANSIENT_PHASES).exclude(reason=UnitReason.GPUS_MISSING)
    yield FailingRows(noun, on_the_way, url, page, cause="cause", order="pk", waits=True)


register_overview_section(overview_section)
