"""The table of warm images on the page of a GPU spec."""

from collections.abc import Iterator
from typing import Final

from django.db.models import Case, When

from gpuplatform.adminkit.detail.panels import Related, RelatedRow
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import phase_badge
from gpuplatform.adminkit.display.causes import title_of
from gpuplatform.adminkit.display.text import condense, shortened, visible
from gpuplatform.workloads.startup import POD_STARTUP_FAILED
from inventory.models import GpuSpec
from units.models import WarmImage
from units.phases import WarmImageState

SHOWN_IMAGES: Final = 50


def warm_images(spec: GpuSpec) -> Iterator[Related]:
    """Yield the states of the warm images of a GPU spec by node, failures first."""
    if not spec.warm_images:
        return
    by_urgency = Case(
        When(state=WarmImageState.FAILED, then=0),
        When(state=WarmImageState.PULLING, then=1),
        default=2,
    )
    rows = WarmImage.objects.filter(spec_name=spec.name).order_by(by_urgency, "image", "node")
    yield Related("Warm images", [_line(row) for row in rows[:SHOWN_IMAGES]])


def _line(row: WarmImage) -> RelatedRow:
    return RelatedRow(
        badge=phase_badge(row.state),
        name=visible(row.image),
        url="",
        text=f"{visible(row.node)}{_problem(row)}",
        since=age_html(row.since),
    )


def _problem(row: WarmImage) -> str:
    """Return the problem of a failed pull as the end of a line, or an empty string."""
    if not row.cause:
        return ""
    return f": {title_of(POD_STARTUP_FAILED, row.cause)}. {shortened(condense(row.message))}"
