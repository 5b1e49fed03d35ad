"""The page of a GPU unit, for stock and for active units."""

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
    mirror_subject,
    service_line,
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
from gpuplatform.adminkit.display.badges import (
    Shape,
    phase_badge,
    phase_shape,
    phase_title,
    shape_badge,
)
from gpuplatform.adminkit.display.causes import reason_html
from gpuplatform.adminkit.display.text import (
    as_yaml,
    condense,
    message_or_reason,
    shortened,
    visible,
)
from gpuplatform.adminkit.display.timeline import Step, timeline
from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import GPU_UNIT
from gpuplatform.lifecycle.conditions import DEGRADED
from gpuplatform.operations.admin import operation_url, operations_of
from gpuplatform.operations.admin_display import operation_steps
from gpuplatform.planning.ownership import UNIT_LABEL
from gpuplatform.reconciliation.inspection import Subject
from inventory.models import GpuSpec
from units.core.names import object_name
from units.models import GpuUnit, UnitHistory
from units.phases import STOCK_NAMESPACE, UNIT_REASONS, UnitPhase, UnitRole
from units.selectors import history_of, stock_state
from units.services.names import UNIT_KIND

HEALTHY_PHASES: Final = frozenset({UnitPhase.READY, UnitPhase.STOPPED})
"""Phases that need no explanation."""

SPEC_URL: Final = "admin:inventory_gpuspec_change"
PAGES: Final = {
    UnitRole.STOCK: "admin:units_stockunit_change",
    UnitRole.ACTIVE: "admin:units_activeunit_change",
}
LISTS: Final = {
    UnitRole.STOCK: "admin:units_stockunit_changelist",
    UnitRole.ACTIVE: "admin:units_activeunit_changelist",
}
PERMISSIONS: Final = {
    UnitRole.ACTIVE: "units.view_activeunit",
    UnitRole.STOCK: "units.view_stockunit",
}
"""The permission to view the units of a role."""
SHOWN_HISTORY: Final = 20
SHOWN_STEPS: Final = 8
PLACEHOLDER_IMAGE: Final = "placeholder image"


def unit_detail(unit: GpuUnit) -> Detail:
    """Return the content of a unit's page."""
    others = _counterparts(unit)
    title = "Consumed by" if unit.role == UnitRole.STOCK else "Source stock"
    steps = (*operation_steps(unit.operation), *_hand_over(unit, others), *unit_steps(unit))
    return Detail(
        title=unit.name,
        badge=unit_badge(unit),
        since=mirror_since(unit),
        panel=mirror_panel(unit, UNIT_REASONS, healthy=HEALTHY_PHASES),
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
            Related(title, [unit_line(row) for row in others]),
            operations_of(UNIT_KIND, unit.pk, unit.operation_id, unit.claimed_by_id),
            Related("History", [_change(row) for row in history_of(unit)[:SHOWN_HISTORY]]),
        ],
        documents=(Document("Spec", visible(as_yaml(unit.spec))),),
    )


def unit_subject(unit: GpuUnit) -> Subject | None:
    """Return the unit's object in the cluster; None where it has none."""
    dependents = object_name(unit.name)
    return mirror_subject(unit, GPU_UNIT, label=UNIT_LABEL, dependents=dependents)


def unit_badge(unit: GpuUnit) -> SafeString:
    """Return the badge of a unit; that of deleted stock shows whether a unit consumed it."""
    if unit.deleted_at and unit.role == UnitRole.STOCK and unit.consumed_by:
        return shape_badge(Shape.OFF, "Consumed")
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
    yield Fact("Image", shortened(unit.image, 512) or PLACEHOLDER_IMAGE)
    yield secrets_fact(unit.spec)
    yield Fact("GPUs", str(unit.gpu))
    yield Fact("CPU", _spec_value(unit, "cpu"))
    yield Fact("Memory", _spec_value(unit, "memory"))
    if unit.role == UnitRole.STOCK:
        yield Fact("State", stock_state(unit).value if not unit.deleted_at else "")
        yield Fact("Index in batch", str(unit.ordinal or ""))
        claim = unit.claimed_by
        if claim:
            yield Fact("Claimed by", visible(claim.operation_id), operation_url(claim))
        yield Fact.time("Consumed", unit.consumed_at)
    else:
        yield Fact("Access URL", visible(unit.access_url))
        yield Fact("Source stock", unit.source_name)
    origin = unit.operation
    if origin:
        yield Fact("Created by", visible(origin.operation_id), operation_url(origin))
    yield from mirror_facts(unit)


def unit_steps(unit: GpuUnit) -> Iterator[Step]:
    """Yield the phases until a unit was first ready, then its present fault."""
    is_settled = is_healthy(unit, HEALTHY_PHASES) or unit.deleted_at
    for row in history_of(unit).order_by("id")[:SHOWN_STEPS]:
        text = message_or_reason(row.reason, row.message)
        yield Step(phase_title(row.phase), row.at, phase_shape(row.phase), text)
        if row.phase == UnitPhase.READY:
            if not is_settled:
                message = message_or_reason(unit.reason, unit.message)
                if is_degraded(unit):
                    yield Step(DEGRADED, unit.phase_since, Shape.WAITING, message)
                else:
                    shape = phase_shape(unit.phase)
                    yield Step(phase_title(unit.phase), unit.phase_since, shape, message)
            return
    if not is_settled:
        yield Step("Ready", None, Shape.OFF, "not yet")


def _hand_over(unit: GpuUnit, others: Sequence[GpuUnit]) -> Iterator[Step]:
    """Yield the hand-over of the GPUs, from either side."""
    sources = [unit] if unit.role == UnitRole.STOCK else others
    for stock, other in zip(sources, others, strict=False):
        if stock.consumed_at:
            yield Step("Hand-over", stock.consumed_at, text=str(other), url=unit_url(other))


def _comparisons(unit: GpuUnit) -> Sequence[Comparison]:
    pods = "0" if unit.is_suspended else "1"
    lines = [Comparison("Ready pods", pods, str(unit.ready_replicas)), generation_line(unit)]
    if unit.role == UnitRole.ACTIVE:
        lines.append(service_line(unit))
    running = "stopped" if unit.phase == UnitPhase.STOPPED else "running"
    lines.append(Comparison("State", "stopped" if unit.is_suspended else "running", running))
    return lines


def _counterparts(unit: GpuUnit) -> list[GpuUnit]:
    """Return the source stock of a unit, or the unit that consumed this stock."""
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
    operation_id = visible(row.operation.operation_id) if row.operation else ""
    return RelatedRow(
        badge=phase_badge(row.phase),
        name=reason_html(row.reason, row.cause) or operation_id,
        url=operation_url(row.operation) if row.operation else "",
        text=shortened(row.message),
        since=age_html(row.at),
    )


def _spec_value(unit: GpuUnit, key: str) -> str:
    return visible(str(field(unit.spec, key) or ""))
