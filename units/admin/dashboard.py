"""Units and stock on the first page of the admin."""

from collections.abc import Sequence

from django.http import HttpRequest
from django.urls import reverse

from gpuplatform.adminkit.age import age_html
from gpuplatform.adminkit.badges import phase_badge
from gpuplatform.adminkit.counts import capped, phase_counts
from gpuplatform.adminkit.dashboard import Count, Failure, Tile, register_dashboard_part
from gpuplatform.adminkit.text import essence, shortened
from units.admin.detail import LISTS, unit_url
from units.models import GpuUnit
from units.phases import UnitPhase, UnitRole

SHOWN_FAILURES = 8
_TITLES = {UnitRole.ACTIVE: "GPU units", UnitRole.STOCK: "Stock"}
_RIGHTS = {UnitRole.ACTIVE: "units.view_activeunit", UnitRole.STOCK: "units.view_stockunit"}
_WORDS = {UnitRole.ACTIVE: "Unit", UnitRole.STOCK: "Stock"}


class UnitsOnDashboard:
    """The numbers of ready units and stock, and those that have failed."""

    def tiles(self, request: HttpRequest) -> Sequence[Tile]:
        """Return a tile for each role that the user may see."""
        return [_tile(role) for role in _seen(request)]

    def failures(self, request: HttpRequest) -> Sequence[Failure]:
        """Return the units that failed last."""
        rows = GpuUnit.objects.filter(
            deleted_at__isnull=True, phase=UnitPhase.FAILED, role__in=_seen(request)
        )
        return [_failure(row) for row in rows.order_by("-phase_since")[:SHOWN_FAILURES]]


def _seen(request: HttpRequest) -> list[UnitRole]:
    return [role for role, right in _RIGHTS.items() if request.user.has_perm(right)]


def _tile(role: UnitRole) -> Tile:
    live = GpuUnit.objects.filter(deleted_at__isnull=True, role=role)
    counts = phase_counts(live, UnitPhase.values)
    url = reverse(LISTS[role])
    return Tile(
        title=_TITLES[role],
        number=capped(counts[UnitPhase.READY]),
        of=f"of {capped(sum(counts.values()))} ready",
        url=url,
        counts=[
            Count(phase_badge(phase), capped(counts[phase]), f"{url}?phase={phase}")
            for phase in UnitPhase.values
            if counts[phase]
        ],
    )


def _failure(row: GpuUnit) -> Failure:
    return Failure(
        badge=phase_badge(row.phase, _WORDS[UnitRole(row.role)]),
        name=str(row),
        url=unit_url(row),
        why=shortened(f"{row.reason}: {essence(row.message)}"),
        since=age_html(row.phase_since),
        order=row.phase_since.timestamp(),
    )


register_dashboard_part(UnitsOnDashboard())
