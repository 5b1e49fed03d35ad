"""Units and stock on the first page of the admin."""

from typing import Final

from django.http import HttpRequest
from django.urls import reverse

from gpuplatform.adminkit.dashboard import CountedRows, Shown, register_dashboard_part
from gpuplatform.adminkit.failing import FailingRows
from units.admin.detail import LISTS, PAGES
from units.models import GpuUnit
from units.phases import UnitPhase, UnitRole

_TITLES: Final = {UnitRole.ACTIVE: "GPU units", UnitRole.STOCK: "Stock"}
_NOUNS: Final = {UnitRole.ACTIVE: "unit", UnitRole.STOCK: "stock unit"}
_RIGHTS: Final = {
    UnitRole.ACTIVE: "units.view_activeunit",
    UnitRole.STOCK: "units.view_stockunit",
}


def on_dashboard(request: HttpRequest) -> Shown:
    """Return units and stock by phase, and those that have failed."""
    seen = [role for role, right in _RIGHTS.items() if request.user.has_perm(right)]
    return Shown(
        counted=[_counted(role) for role in seen], failing=[_failing(role) for role in seen]
    )


def _counted(role: UnitRole) -> CountedRows:
    live = GpuUnit.objects.filter(deleted_at__isnull=True, role=role)
    ready, url = (UnitPhase.READY,), reverse(LISTS[role])
    return CountedRows(_TITLES[role], live, UnitPhase.values, ready, "ready", url, role)


def _failing(role: UnitRole) -> FailingRows:
    failed = GpuUnit.objects.filter(deleted_at__isnull=True, role=role, phase=UnitPhase.FAILED)
    return FailingRows(_NOUNS[role], failed, reverse(LISTS[role]), PAGES[role])


register_dashboard_part(on_dashboard)
