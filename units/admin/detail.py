"""The parts of the pages of stock units and active units."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from django.utils.safestring import SafeString

from gpuplatform.adminkit.actions.mirrors import (
    is_degraded,
    is_healthy,
    mirror_badge,
    mirror_since,
)
from gpuplatform.adminkit.detail.panels import Comparison, Fact, RelatedRow, secrets_fact
from gpuplatform.adminkit.detail.sizes import PLACEHOLDER_IMAGE
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import (
    Shape,
    phase_badge,
    phase_shape,
    phase_title,
    shape_badge,
)
from gpuplatform.adminkit.display.causes import reason_html
from gpuplatform.adminkit.display.text import condense, message_or_reason, shortened, visible
from gpuplatform.adminkit.display.timeline import Step
from gpuplatform.adminkit.display.urls import page_url
from gpuplatform.kube.fields import field
from gpuplatform.lifecycle.conditions import DEGRADED
from inventory.admin import spec_fact
from units.models import ActiveUnit, GpuUnit, StockUnit, UnitHistory
from units.phases import STOCK_NAMESPACE, UnitPhase, UnitRole
from units.selectors import history_of, stock_state

HEALTHY_PHASES: Final = frozenset({UnitPhase.READY, UnitPhase.STOPPED})
"""Phases that need no explanation."""
MODELS: Final[Mapping[UnitRole, type[GpuUnit]]] = {
    UnitRole.STOCK: StockUnit,
    UnitRole.ACTIVE: ActiveUnit,
}
"""The model whose pages show the units of a role."""
SHOWN_STEPS: Final = 8


def unit_badge(unit: GpuUnit) -> SafeString:
    """Return the badge of a unit; the badge of consumed stock is Consumed instead of Deleted."""
    if unit.deleted_at and unit.role == UnitRole.STOCK and unit.consumed_by:
        return shape_badge(Shape.OFF, "Consumed")
    return mirror_badge(unit)


def unit_url(unit: GpuUnit) -> str:
    """Return the URL of a unit's page."""
    return page_url(MODELS[UnitRole(unit.role)](pk=unit.pk))


def unit_line(unit: GpuUnit) -> RelatedRow:
    """Return a unit as a line of a table on another page."""
    return RelatedRow(
        badge=unit_badge(unit),
        name=str(unit),
        url=unit_url(unit),
        text=message_or_reason(unit.reason, condense(unit.message)),
        since=mirror_since(unit),
    )


def unit_facts(unit: GpuUnit) -> Iterable[Fact]:
    """Yield the facts of a unit."""
    yield spec_fact(unit.spec_name)
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
            yield Fact("Claimed by", visible(claim.operation_id), page_url(claim))
        yield Fact.time("Consumed", unit.consumed_at)
    else:
        yield Fact("Access URL", visible(unit.access_url))
        yield Fact("Source stock", unit.source_name)
    origin = unit.operation
    if origin:
        yield Fact("Created by", visible(origin.operation_id), page_url(origin))


def unit_steps(unit: GpuUnit) -> Iterator[Step]:
    """Yield the phases until the unit was first ready, then its current failure if it has one."""
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


def hand_over(unit: GpuUnit, others: Sequence[GpuUnit]) -> Iterator[Step]:
    """Yield the hand-over of the GPUs, for the page of the unit or of its source stock."""
    sources = [unit] if unit.role == UnitRole.STOCK else others
    for stock, other in zip(sources, others, strict=False):
        if stock.consumed_at:
            yield Step("Hand-over", stock.consumed_at, text=str(other), url=unit_url(other))


def unit_comparisons(unit: GpuUnit) -> Iterator[Comparison]:
    """Yield the comparisons of the desired and the actual state of a unit."""
    yield Comparison("Ready pods", "0" if unit.is_suspended else "1", str(unit.ready_replicas))
    actual = "stopped" if unit.phase == UnitPhase.STOPPED else "running"
    yield Comparison("State", "stopped" if unit.is_suspended else "running", actual)


def counterparts(unit: GpuUnit) -> list[GpuUnit]:
    """Return the source stock of an active unit, or the unit that consumed a stock unit."""
    if unit.role == UnitRole.STOCK:
        return list(GpuUnit.objects.filter(uid=unit.consumed_by).exclude(uid=""))
    known = list(GpuUnit.objects.filter(uid=unit.source_uid).exclude(uid=""))
    if known or not unit.source_name:
        return known
    named = GpuUnit.objects.filter(
        namespace=STOCK_NAMESPACE, name=unit.source_name, deleted_at__isnull=True
    )
    return list(named)


def change_line(row: UnitHistory) -> RelatedRow:
    """Return a change of a unit's phase as a line of a table."""
    operation_id = visible(row.operation.operation_id) if row.operation else ""
    return RelatedRow(
        badge=phase_badge(row.phase),
        name=reason_html(row.reason, row.cause) or operation_id,
        url=page_url(row.operation) if row.operation else "",
        text=shortened(row.message),
        since=age_html(row.at),
    )


def _spec_value(unit: GpuUnit, key: str) -> str:
    return visible(str(field(unit.spec, key) or ""))
