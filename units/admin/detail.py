"""What the page of a GPU unit shows: one shape for stock and for units in use."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from django.urls import reverse
from django.utils.safestring import SafeString

from gpuplatform.adminkit.actions.mirrors import (
    comparison_note,
    generation_line,
    is_degraded,
    is_healthy,
    mirror_badge,
    mirror_copies,
    mirror_facts,
    mirror_panel,
    mirror_since,
)
from gpuplatform.adminkit.detail.panels import (
    Comparison,
    Detail,
    Document,
    Fact,
    Related,
    RelatedRow,
    condition_lines,
    secrets_fact,
)
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import Shape, phase_badge, phase_shape, shape_badge
from gpuplatform.adminkit.display.causes import reason_html
from gpuplatform.adminkit.display.text import (
    as_yaml,
    condense,
    message_or_reason,
    shortened,
    visible,
)
from gpuplatform.adminkit.display.timeline import Step, timeline
from gpuplatform.kube.fields import field, items
from gpuplatform.kube.kinds import GPU_UNIT
from gpuplatform.lifecycle.conditions import DEGRADED
from gpuplatform.operations.admin import operation_url, operations_of
from gpuplatform.operations.admin_timeline import operation_steps
from gpuplatform.planning.ownership import UNIT_LABEL
from gpuplatform.reconciliation.inspection import Subject
from inventory.models import GpuSpec
from units.core.names import deployment_name
from units.models import GpuUnit, UnitHistory
from units.phases import STOCK_NAMESPACE, UNIT_REASONS, UnitPhase, UnitRole
from units.selectors import history_of, stock_state
from units.services.names import UNIT_KIND

HEALTHY_PHASES: Final = frozenset({UnitPhase.READY, UnitPhase.STOPPED})
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
RIGHTS: Final = {
    UnitRole.ACTIVE: "units.view_activeunit",
    UnitRole.STOCK: "units.view_stockunit",
}
"""Who may see the units of a role."""
SHOWN_HISTORY: Final = 20
SHOWN_STEPS: Final = 8
NO_IMAGE: Final = "the reservation image"


def unit_detail(unit: GpuUnit) -> Detail:
    """Return the whole page."""
    others = _other_side(unit)
    side = "Taken by" if unit.role == UnitRole.STOCK else "Came from"
    steps = (*operation_steps(unit.operation), *_taking(unit, others), *unit_steps(unit))
    return Detail(
        title=unit.name,
        badge=unit_badge(unit),
        since=mirror_since(unit),
        panel=mirror_panel(unit, UNIT_REASONS, well=HEALTHY_PHASES),
        facts=[fact for fact in _facts(unit) if fact.value],
        comparisons=() if unit.deleted_at else _comparisons(unit),
        comparison_note=comparison_note(unit),
        timeline=timeline(steps),
        copies=mirror_copies(unit, "gpuunit"),
        conditions=condition_lines(
            unit.conditions, failed=unit.phase == UnitPhase.FAILED, cause=unit.cause
        ),
        has_conditions=True,
        related=[
            Related(side, [unit_line(row) for row in others]),
            operations_of(UNIT_KIND, unit.pk, unit.operation_id, unit.claimed_by_id),
            Related("History", [_change(row) for row in history_of(unit)[:SHOWN_HISTORY]]),
        ],
        documents=(Document("Spec", visible(as_yaml(unit.spec))),),
    )


def unit_subject(unit: GpuUnit) -> Subject | None:
    """Return what the cluster is asked about a unit; None where it has nothing of it."""
    if unit.deleted_at or not unit.uid:
        return None
    return Subject(
        kind=GPU_UNIT,
        namespace=unit.namespace,
        name=unit.name,
        uid=unit.uid,
        label=UNIT_LABEL,
        dependents=deployment_name(unit.name),
    )


def unit_badge(unit: GpuUnit) -> SafeString:
    """Return the badge of a unit; stock that a unit took over is not just gone."""
    if unit.deleted_at and unit.role == UnitRole.STOCK and unit.consumed_by:
        return shape_badge(Shape.OFF, "Taken over")
    return mirror_badge(unit)


def unit_url(unit: GpuUnit) -> str:
    """Return the address of a unit's page."""
    return reverse(PAGES[UnitRole(unit.role)], args=[unit.pk])


def unit_line(unit: GpuUnit) -> RelatedRow:
    """Return a unit as a line on another page."""
    return RelatedRow(
        badge=unit_badge(unit),
        name=str(unit),
        url=unit_url(unit),
        text=message_or_reason(unit.reason, condense(unit.message)),
        since=mirror_since(unit),
    )


def _facts(unit: GpuUnit) -> Iterable[Fact]:
    entry = GpuSpec.objects.filter(name=unit.spec_name).first()
    yield Fact("GPU spec", unit.spec_name, reverse(SPEC_URL, args=[entry.pk]) if entry else "")
    yield Fact("Image", shortened(unit.image, 512) or NO_IMAGE)
    yield secrets_fact(unit.spec)
    yield Fact("GPUs", str(unit.gpu))
    yield Fact("CPU", _shown(unit, "cpu"))
    yield Fact("Memory", _shown(unit, "memory"))
    if unit.role == UnitRole.STOCK:
        yield Fact("Counts as", stock_state(unit).value if not unit.deleted_at else "")
        yield Fact("Number of its seeding", str(unit.ordinal or ""))
        claim = unit.claimed_by
        if claim:
            yield Fact("Set aside for", visible(claim.operation_id), operation_url(claim))
        yield Fact.time("Taken", unit.consumed_at)
    else:
        yield Fact("Access URL", visible(unit.access_url))
        yield Fact("Source stock", unit.source_name)
    made_by = unit.operation
    if made_by:
        yield Fact("Made by", visible(made_by.operation_id), operation_url(made_by))
    yield from mirror_facts(unit)


def unit_steps(unit: GpuUnit) -> Iterator[Step]:
    """Yield its phases until it was ready for the first time, then what is wrong with it now."""
    is_settled = is_healthy(unit, HEALTHY_PHASES) or unit.deleted_at
    for row in history_of(unit).order_by("id")[:SHOWN_STEPS]:
        text = message_or_reason(row.reason, row.message)
        yield Step(row.phase, row.at, phase_shape(row.phase), text)
        if row.phase == UnitPhase.READY:
            if not is_settled:
                why = message_or_reason(unit.reason, unit.message)
                if is_degraded(unit):
                    yield Step(DEGRADED, unit.phase_since, Shape.WAITING, why)
                else:
                    yield Step(unit.phase, unit.phase_since, phase_shape(unit.phase), why)
            return
    if not is_settled:
        yield Step("Ready", None, Shape.OFF, "not yet")


def _taking(unit: GpuUnit, others: Sequence[GpuUnit]) -> Iterator[Step]:
    """Yield when a GPU was handed over, from either side."""
    taken = [unit] if unit.role == UnitRole.STOCK else others
    for stock, other in zip(taken, others, strict=False):
        if stock.consumed_at:
            yield Step("GPU taken over", stock.consumed_at, text=str(other), url=unit_url(other))


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


def _other_side(unit: GpuUnit) -> list[GpuUnit]:
    """Return the stock that a unit took, or the unit that took this stock."""
    if unit.role == UnitRole.STOCK:
        return list(GpuUnit.objects.filter(uid=unit.consumed_by).exclude(uid=""))
    known = list(GpuUnit.objects.filter(uid=unit.source_uid).exclude(uid=""))
    if known or not unit.source_name:
        return known
    named = GpuUnit.objects.filter(
        namespace=STOCK_NAMESPACE, name=unit.source_name, deleted_at__isnull=True
    )
    return list(named)


def _change(row: UnitHistory) -> RelatedRow:
    job = visible(row.operation.operation_id) if row.operation else ""
    return RelatedRow(
        badge=phase_badge(row.phase),
        name=reason_html(row.reason, row.cause) or job,
        url=operation_url(row.operation) if row.operation else "",
        text=shortened(row.message),
        since=age_html(row.at),
    )


def _shown(unit: GpuUnit, key: str) -> str:
    return visible(str(field(unit.spec, key) or ""))
