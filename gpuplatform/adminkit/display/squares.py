"""GPUs as a row of squares, each colored by its use, grouped by the object that holds them.

Colors are the CSS classes of the segments of `charts.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from gpuplatform.adminkit.display.charts import Segment, stacked_bar

MAX_SQUARES: Final = 64
"""Maximum number of squares of a row. More GPUs are a stacked bar."""


@dataclass(frozen=True, slots=True)
class GpuGroup:
    """GPUs that one object holds, or GPUs without a holder; `use` is the suffix of the class."""

    use: str
    number: int
    title: str
    """The name of the holder and the use."""
    url: str = ""
    """The URL of the holder's page, which makes the squares a link."""
    is_missing: bool = False
    """Whether the node no longer offers these GPUs, although a pod holds them."""


def squares(groups: Sequence[GpuGroup], label: str) -> SafeString:
    """Return the GPUs of a node as squares, or as a stacked bar if there are too many."""
    shown = [group for group in groups if group.number > 0]
    if sum(group.number for group in shown) > MAX_SQUARES:
        segments = [Segment(group.use, group.number, group.title) for group in shown]
        return stacked_bar(segments, label)
    return format_html(
        '<span class="gpus"{}>{}</span>',
        SafeString("") if any(one.url for one in shown) else _as_image(label),
        format_html_join("", "{}", ((_group(group),) for group in shown)),
    )


def swatch(use: str, text: str) -> SafeString:
    """Return the color of a use with its name."""
    return format_html('<span class="use"><i class="seg-{}"></i>{}</span>', use, text)


def _as_image(label: str) -> SafeString:
    return format_html(' role="img" aria-label="{}"', label)


def _group(group: GpuGroup) -> SafeString:
    kind = f"seg-{group.use}{' missing' if group.is_missing else ''}"
    cells = format_html_join("", '<i class="{}"></i>', ((kind,) for _ in range(group.number)))
    if not group.url:
        return format_html('<span title="{}">{}</span>', group.title, cells)
    return format_html(
        '<a href="{}" title="{}" aria-label="{}">{}</a>',
        *(group.url, group.title, group.title, cells),
    )
