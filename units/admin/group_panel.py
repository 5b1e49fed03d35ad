"""The first part of the page of a group of units that failed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gpuplatform.adminkit.actions.mirrors import mirror_panel
from gpuplatform.adminkit.detail.panels import Panel
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import phase_shape
from gpuplatform.adminkit.display.text import counted, visible
from units.admin.detail import HEALTHY_PHASES
from units.group_members import UnitGroupState
from units.models import GpuUnit
from units.phases import UNIT_REASONS, UnitPhase

INCOMPLETE: Final = "Incomplete group"
_RECREATE: Final = "Delete the group and create it again."
_RESTART: Final = "Stop the group and start it again."


def group_panel(group: UnitGroupState) -> Panel | None:
    """Return the explanation of a failed group, or `None` if the group has not failed.

    It is the failure of the failed unit with the lowest rank. A group also fails if units are
    missing, or if only a part of its units is stopped.
    """
    if group.phase != UnitPhase.FAILED:
        return None
    failed = [one for one in group.members if one.phase == UnitPhase.FAILED]
    panel = mirror_panel(failed[0], UNIT_REASONS, healthy=HEALTHY_PHASES) if failed else None
    if panel is None:
        return _incomplete(group)
    further = len(failed) - 1
    more = f" {counted(further, 'further unit')} failed." if further else ""
    return replace(panel, text=f"Unit '{visible(failed[0].name)}': {panel.text}{more}")


def _incomplete(group: UnitGroupState) -> Panel:
    stopped = [one for one in group.members if one.phase == UnitPhase.STOPPED]
    missing = group.size - len(group.members)
    parts = [
        counted(missing, "unit", "does not exist", "do not exist") if missing else "",
        f"{_names(stopped)} {'is' if len(stopped) == 1 else 'are'} stopped" if stopped else "",
    ]
    return Panel(
        shape=phase_shape(UnitPhase.FAILED),
        title=INCOMPLETE,
        text=f"Of {counted(group.size, 'unit')}, {' and '.join(filter(None, parts))}.",
        since=age_html(max(one.phase_since for one in group.members)),
        next_step=_RECREATE if missing else _RESTART,
    )


def _names(units: Sequence[GpuUnit]) -> str:
    return ", ".join(visible(one.name) for one in units)
