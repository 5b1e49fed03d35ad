"""The parts of the pages of stock units and active units."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from django.db.models import Q
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
from gpuplatform.adminkit.display.text import (
    condense,
    gpu_value,
    message_or_reason,
    resources_value,
    shortened,
    visible,
)
from gpuplatform.adminkit.display.timeline import Step
from gpuplatform.adminkit.display.urls import page_url
from gpuplatform.kube.fields import field
from gpuplatform.lifecycle.conditions import DEGRADED
from gpuplatform.workloads.start_steps import StartStep, steps_in
from inventory.admin import spec_fact
from inventory.models import Node
from units.models import ActiveUnit, GpuUnit, StockUnit, UnitGroup, UnitHistory
from units.phases import STOCK_NAMESPACE, UnitPhase, UnitRole
from units.selectors import history_of, stock_state
from units.waiting_units import preemption_text

HEALTHY_PHASES: Final = frozenset({UnitPhase.READY, UnitPhase.STOPPED, UnitPhase.SUCCEEDED})
"""Phases that need no explanation."""
MODELS: Final[Mapping[UnitRole, type[GpuUnit]]] = {
    UnitRole.STOCK: StockUnit,
    UnitRole.ACTIVE: ActiveUnit,
}
"""The model whose pages show the units of a role."""
SHOWN_STEPS: Final = 8
SHOWN_HISTORY: Final = 20
_STEP_LABELS: Final[Mapping[StartStep, str]] = {
    StartStep.GPU: "GPU",
    StartStep.IMAGE_PULL: "image pull",
    StartStep.CONTAINER_START: "container",
    StartStep.READINESS: "readiness",
}


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


def node_url(unit: GpuUnit) -> str:
    """Return the URL of the page of the node of a unit, or an empty string if it has none."""
    return page_url(Node(pk=unit.node_row)) if unit.node_row else ""


def unit_facts(unit: GpuUnit) -> Iterable[Fact]:
    """Yield the facts of a unit."""
    yield spec_fact(unit.spec_name, unit.spec_row)
    yield Fact("Image", shortened(unit.image, 512) or PLACEHOLDER_IMAGE)
    yield secrets_fact(unit.spec)
    yield Fact("GPUs", gpu_value(unit.gpu, unit.resource_name))
    yield Fact("Further resources", resources_value(field(unit.spec, "resources")))
    yield Fact("CPU", _spec_value(unit, "cpu"))
    yield Fact("Memory", _spec_value(unit, "memory"))
    yield Fact("Node", visible(unit.node), node_url(unit))
    if unit.role == UnitRole.STOCK:
        yield Fact("State", stock_state(unit).value if not unit.deleted_at else "")
        yield Fact("Index in batch", str(unit.ordinal or ""))
        claim = unit.claimed_by
        if claim:
            yield Fact("Claimed by", visible(claim.operation_id), page_url(claim))
        yield Fact.time("Consumed", unit.consumed_at)
    else:
        yield from _group_facts(unit)
        yield from _preemption_facts(unit)
        yield Fact("Restart", _restart(unit))
        yield Fact("Exit code", "" if unit.exit_code is None else str(unit.exit_code))
        yield Fact.time("Finished", unit.finished_at)
        yield Fact("Access URL", visible(unit.responding_url))
        yield Fact("Source stock", unit.source_name)
        yield Fact("Avoided node", unit.avoided_node)
        yield from _start_facts(unit)
    origin = unit.operation
    if origin:
        yield Fact("Created by", visible(origin.operation_id), page_url(origin))


def _group_facts(unit: GpuUnit) -> Iterator[Fact]:
    """Yield the group of a unit and its rank, with a link to the page of the group."""
    if unit.group_name:
        url = page_url(UnitGroup(pk=unit.group_row)) if unit.group_row else ""
        yield Fact("Group", f"{visible(unit.group_name)}, rank {unit.group_rank}", url)


def _preemption_facts(unit: GpuUnit) -> Iterator[Fact]:
    yield Fact("Priority", str(unit.priority) if unit.priority else "")
    yield Fact("Preemptible", "yes" if unit.is_preemptible else "")
    if unit.preempted_at is not None:
        yield Fact("Preemption notice", preemption_text(unit.preempted_at))


def _start_facts(unit: GpuUnit) -> Iterator[Fact]:
    """Yield the steps of the last start of a unit with their durations."""
    for step in steps_in({"startSteps": unit.start_steps}):
        time = "in progress" if step.seconds is None else f"{step.seconds} s"
        text = ": ".join(part for part in (time, visible(step.text)) if part)
        yield Fact(f"Start: {_STEP_LABELS[step.step]}", text)


def shown_history(unit: GpuUnit) -> list[UnitHistory]:
    """Return the oldest and the newest changes of a unit, newest first. Runs one query."""
    changes = history_of(unit)
    oldest = changes.order_by("id").values("pk")[:SHOWN_STEPS]
    newest = changes.values("pk")[:SHOWN_HISTORY]
    return list(changes.filter(Q(pk__in=oldest) | Q(pk__in=newest)))


def unit_steps(unit: GpuUnit, history: Sequence[UnitHistory]) -> Iterator[Step]:
    """Yield the phases until the unit was first ready, then its current failure if it has one."""
    is_settled = is_healthy(unit, HEALTHY_PHASES) or unit.deleted_at
    for row in list(reversed(history))[:SHOWN_STEPS]:
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


def warm_start(unit: GpuUnit, others: Sequence[GpuUnit]) -> Iterator[Fact]:
    """Yield whether the node of the source stock was known to have the image at the claim."""
    sources = [unit] if unit.role == UnitRole.STOCK else others
    for stock in sources[:1]:
        if stock.claimed_by_id or stock.consumed_by:
            yield Fact("Warm start", "yes" if stock.is_warm_start else "no")


def unit_comparisons(unit: GpuUnit) -> Iterator[Comparison]:
    """Yield the comparisons of the desired and the actual state of a unit that has not ended."""
    if unit.is_ended:
        return
    yield Comparison("Ready pods", "0" if unit.is_suspended else "1", str(unit.ready_replicas))
    actual = "stopped" if unit.phase == UnitPhase.STOPPED else "running"
    yield Comparison("State", "stopped" if unit.is_suspended else "running", actual)


def counterparts(unit: GpuUnit) -> list[GpuUnit]:
    """Return the source stock of an active unit, or the unit that consumed a stock unit."""
    if unit.role == UnitRole.STOCK:
        consumers = GpuUnit.objects.filter(uid=unit.consumed_by)
        return list(consumers) if unit.consumed_by else []
    of_uid = GpuUnit.objects.filter(uid=unit.source_uid)
    known = list(of_uid) if unit.source_uid else []
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


def _restart(unit: GpuUnit) -> str:
    """Return when the program is started again, or an empty string for the default."""
    return visible(str(field(unit.spec, "template", "restart") or ""))


def _spec_value(unit: GpuUnit, key: str) -> str:
    return visible(str(field(unit.spec, key) or ""))
