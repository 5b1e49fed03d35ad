"""The parts of the pages of nodes and units that show the drain of a node."""

from collections.abc import Iterator, Sequence

from django.utils.safestring import SafeString

from gpuplatform.adminkit.detail.panels import Fact, Panel, Related, RelatedRow
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.text import counted, humanize, visible
from gpuplatform.adminkit.display.urls import page_url
from units.admin.detail import unit_badge, unit_url
from units.core.drain import notice_text
from units.drain_progress import DrainProgress, notices_of
from units.drain_states import DRAIN_STATES, DrainState
from units.models import GpuUnit


def drain_badge(drain: DrainProgress) -> SafeString:
    """Return the badge of a node that is being drained."""
    if drain.state == DrainState.DRAINED:
        return shape_badge(Shape.OFF, "Drained")
    return shape_badge(Shape.PROGRESS, "Draining")


def drain_note(drain: DrainProgress) -> str:
    """Return the numbers of units that are left on a node, for a list."""
    if drain.state == DrainState.DRAINED:
        return ""
    left = drain.left
    units, stock = counted(len(left.units), "unit"), counted(len(left.stock), "stock unit")
    return f"draining, {units} and {stock} left"


def drain_panel(drain: DrainProgress) -> Panel:
    """Return the state of a drain, and what is left on the node."""
    explanation, left = DRAIN_STATES[drain.state], drain.left
    is_left = drain.state != DrainState.DRAINED
    text = (
        f"{explanation.meaning} Left: {counted(len(left.units), 'GPU unit')} and"
        f" {counted(len(left.stock), 'stock unit')}."
    )
    return Panel(
        shape=Shape.PROGRESS if is_left else Shape.READY,
        title=f"Draining: {humanize(drain.state).lower()}" if is_left else "Drained",
        text=text,
        since=age_html(drain.drain.started_at),
        next_step=explanation.next_step,
    )


def drain_facts(found: DrainProgress | None) -> Iterator[Fact]:
    """Yield the facts of a drain."""
    if found is None:
        return
    drain = found.drain
    yield Fact("Drained by", visible(str(drain.operation)), page_url(drain.operation))
    yield Fact.time("Units are stopped", drain.deadline)
    yield Fact("Units left", str(len(found.left.units)))
    yield Fact("Stock left", str(len(found.left.stock)))


def drain_related(found: DrainProgress | None) -> Sequence[Related]:
    """Return the units that are left on a node that is being drained, with their tenants."""
    if found is None or not found.left.units:
        return ()
    rows = [
        RelatedRow(
            badge=unit_badge(unit),
            name=visible(unit.name),
            url=unit_url(unit),
            text=f"tenant {unit.tenant.name}" if unit.tenant else "no tenant",
            since=age_html(unit.phase_since),
        )
        for unit in found.left.units
    ]
    return (Related("Units left by the drain", rows),)


def notice_facts(unit: GpuUnit) -> Iterator[Fact]:
    """Yield the notice that a drain stops a unit."""
    for drain in notices_of([unit]).values():
        if drain.deadline:
            text = notice_text(drain.node, drain.deadline, unit.group_name)
            yield Fact("Notice", visible(text))
