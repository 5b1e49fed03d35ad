"""What the page of a GPU unit shows: one shape for stock and for units in use."""

from collections.abc import Iterable, Sequence
from typing import Final

from django.urls import reverse

from gpuplatform.adminkit.age import age_html
from gpuplatform.adminkit.badges import phase_badge
from gpuplatform.adminkit.detail import (
    Comparison,
    Detail,
    Document,
    Fact,
    Related,
    RelatedRow,
    condition_lines,
)
from gpuplatform.adminkit.mirrors import (
    FAILED,
    comparison_note,
    generation_line,
    mirror_badge,
    mirror_facts,
    mirror_panel,
    mirror_since,
)
from gpuplatform.adminkit.text import as_yaml, shortened, visible
from gpuplatform.kube.fields import field, items
from gpuplatform.operations.admin import job_url, jobs_of
from inventory.models import GpuSpec
from units.models import GpuUnit, UnitHistory
from units.phases import NEXT_STEPS, STOCK_NAMESPACE, UnitPhase, UnitRole
from units.selectors import history_of, stock_state
from units.services import UNIT_KIND

WELL: Final = frozenset({UnitPhase.READY, UnitPhase.STOPPED})
"""Phases that nothing has to explain."""

SPEC_URL: Final = "admin:inventory_gpuspec_change"
PAGES: Final = {
    UnitRole.STOCK: "admin:units_stockunit_change",
    UnitRole.ACTIVE: "admin:units_activeunit_change",
}
LISTS: Final = {
    UnitRole.STOCK: "admin:units_stockunit_changelist",
    UnitRole.ACTIVE: "admin:units_activeunit_changelist",
}
SHOWN_HISTORY: Final = 20
NO_IMAGE: Final = "the reservation image"


def unit_detail(unit: GpuUnit) -> Detail:
    """Return the whole page."""
    return Detail(
        title=unit.name,
        badge=mirror_badge(unit),
        since=mirror_since(unit),
        panel=mirror_panel(unit, NEXT_STEPS, well=WELL),
        facts=[fact for fact in _facts(unit) if fact.value],
        comparisons=() if unit.deleted_at else _comparisons(unit),
        comparison_note=comparison_note(unit),
        conditions=condition_lines(unit.conditions, failed=unit.phase == FAILED),
        has_conditions=True,
        related=[
            _other_side(unit),
            jobs_of(UNIT_KIND, unit.pk, unit.operation_id, unit.claimed_by_id),
            Related("History", [_change(row) for row in history_of(unit)[:SHOWN_HISTORY]]),
        ],
        documents=(Document("Spec", visible(as_yaml(unit.spec))),),
    )


def unit_url(unit: GpuUnit) -> str:
    """Return the address of a unit's page."""
    return reverse(PAGES[UnitRole(unit.role)], args=[unit.pk])


def unit_line(unit: GpuUnit) -> RelatedRow:
    """Return a unit as a line on another page."""
    return RelatedRow(
        badge=mirror_badge(unit),
        name=str(unit),
        url=unit_url(unit),
        text=shortened(unit.message or unit.reason),
        since=mirror_since(unit),
    )


def _facts(unit: GpuUnit) -> Iterable[Fact]:
    entry = GpuSpec.objects.filter(name=unit.spec_name).first()
    yield Fact("GPU spec", unit.spec_name, reverse(SPEC_URL, args=[entry.pk]) if entry else "")
    yield Fact("Image", shortened(unit.image, 512) or NO_IMAGE)
    yield Fact("GPUs", str(unit.gpu))
    yield Fact("CPU", _shown(unit, "cpu"))
    yield Fact("Memory", _shown(unit, "memory"))
    if unit.role == UnitRole.STOCK:
        yield Fact("Counts as", stock_state(unit).value if not unit.deleted_at else "")
        yield Fact("Number of its seeding", str(unit.ordinal or ""))
        claim = unit.claimed_by
        if claim:
            yield Fact("Set aside for", visible(claim.operation_id), job_url(claim))
        yield Fact.time("Taken", unit.consumed_at)
    else:
        yield Fact("Access URL", visible(unit.access_url))
        yield Fact("Source stock", unit.source_name)
    made_by = unit.operation
    if made_by:
        yield Fact("Made by", visible(made_by.operation_id), job_url(made_by))
    yield from mirror_facts(unit)


def _comparisons(unit: GpuUnit) -> Sequence[Comparison]:
    pods = "0" if unit.is_suspended else "1"
    lines = [Comparison("Ready pods", pods, str(unit.ready_replicas)), generation_line(unit)]
    if unit.role == UnitRole.ACTIVE:
        wants = bool(items(unit.spec, "template", "ports"))
        seen = visible(unit.service_name) or "none"
        wanted = seen if wants == bool(unit.service_name) else "yes" if wants else "none"
        lines.append(Comparison("Service", wanted, seen))
    running = "stopped" if unit.phase == UnitPhase.STOPPED else "running"
    lines.append(Comparison("State", "stopped" if unit.is_suspended else "running", running))
    return lines


def _other_side(unit: GpuUnit) -> Related:
    """Return the stock that a unit took, or the unit that took this stock."""
    if unit.role == UnitRole.STOCK:
        taken_by = GpuUnit.objects.filter(uid=unit.consumed_by).exclude(uid="")
        return Related("Taken by", [unit_line(row) for row in taken_by])
    known = GpuUnit.objects.filter(uid=unit.source_uid).exclude(uid="")
    named = GpuUnit.objects.filter(
        namespace=STOCK_NAMESPACE, name=unit.source_name, deleted_at__isnull=True
    )
    sources = list(known) or (list(named) if unit.source_name else [])
    return Related("Came from", [unit_line(row) for row in sources])


def _change(row: UnitHistory) -> RelatedRow:
    return RelatedRow(
        badge=phase_badge(row.phase),
        name=visible(row.reason) or (visible(row.operation.operation_id) if row.operation else ""),
        url=job_url(row.operation) if row.operation else "",
        text=shortened(row.message),
        since=age_html(row.at),
    )


def _shown(unit: GpuUnit, key: str) -> str:
    return visible(str(field(unit.spec, key) or ""))
