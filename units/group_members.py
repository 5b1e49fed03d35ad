"""Reads groups of units. A group exists as long as one of its units does."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Exists, OuterRef, QuerySet

from gpuplatform.errors import NotFound
from gpuplatform.kube.fields import number
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from units.core.groups import group_phase
from units.models import GpuUnit
from units.phases import UnitPhase, UnitRole
from units.selectors import units_live
from units.waiting_display import show_waiting

GROUP_STOP_KIND: Final = "group.stop"
GROUP_START_KIND: Final = "group.start"
"""The operation kinds that stop and start all units of a group."""


@dataclass(frozen=True, slots=True)
class UnitGroupState:
    """A group with its units, as they are displayed."""

    first: GpuUnit
    """The unit with the smallest id, which represents the group in lists."""
    members: Sequence[GpuUnit]
    """The units by rank."""
    is_changing: bool = False
    """Whether the group is being stopped or started."""

    @property
    def size(self) -> int:
        """The number of units of the complete group."""
        return number(self.first.spec, "group", "size")

    @property
    def phase(self) -> UnitPhase:
        """The phase of the group."""
        phases = [one.phase for one in self.members]
        return group_phase(phases, self.size, is_changing=self.is_changing)

    @property
    def ready(self) -> int:
        """The number of ready units."""
        return sum(one.phase == UnitPhase.READY for one in self.members)


def first_member() -> QuerySet[GpuUnit, int]:
    """Return the id of the first unit of the group of the outer unit."""
    same = {"namespace": OuterRef("namespace"), "group_name": OuterRef("group_name")}
    live = GpuUnit.objects.filter(role=UnitRole.ACTIVE, deleted_at__isnull=True, **same)
    return live.order_by("pk").values_list("pk", flat=True)[:1]


def first_members() -> QuerySet[GpuUnit]:
    """Return the first unit of each group that exists or is being created, newest group first."""
    earlier = GpuUnit.objects.filter(
        role=UnitRole.ACTIVE,
        namespace=OuterRef("namespace"),
        group_name=OuterRef("group_name"),
        deleted_at__isnull=True,
        pk__lt=OuterRef("pk"),
    )
    return units_live(UnitRole.ACTIVE).exclude(group_name="").exclude(Exists(earlier))


def members_live(namespace: str, name: str) -> QuerySet[GpuUnit]:
    """Return the units of a group that exist or are being created, by rank."""
    rows = units_live(UnitRole.ACTIVE).filter(namespace=namespace, group_name=name)
    return rows.order_by("group_rank", "id")


def group_states(firsts: Sequence[GpuUnit]) -> list[UnitGroupState]:
    """Return the groups of these first units, in the same order.

    Runs one query, and a further one if a part of the units of a group is stopped.
    """
    found: dict[tuple[str, str], list[GpuUnit]] = {
        (one.namespace, one.group_name): [] for one in firsts
    }
    rows = units_live(UnitRole.ACTIVE).filter(
        namespace__in={one.namespace for one in firsts},
        group_name__in={one.group_name for one in firsts},
    )
    rows = rows.defer("spec", "operation__payload").order_by("group_rank", "id")
    for row in rows if firsts else ():
        found.get((row.namespace, row.group_name), []).append(row)
    show_waiting([row for members in found.values() for row in members])
    partly = [place for place, members in found.items() if _is_partly_stopped(members)]
    changing = _being_changed(partly) if partly else frozenset()
    places = [(one.namespace, one.group_name) for one in firsts]
    return [
        UnitGroupState(one, found[place], is_changing=place in changing)
        for one, place in zip(firsts, places, strict=True)
    ]


def _is_partly_stopped(members: Sequence[GpuUnit]) -> bool:
    stopped = sum(one.phase == UnitPhase.STOPPED for one in members)
    return 0 < stopped < len(members)


def _being_changed(groups: Sequence[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """Return the groups, by namespace and name, that are being stopped or started."""
    rows = Operation.objects.filter(
        kind__in=(GROUP_STOP_KIND, GROUP_START_KIND),
        phase__in=OPEN_PHASES,
        object_namespace__in={namespace for namespace, _ in groups},
        object_name__in={name for _, name in groups},
    )
    return frozenset(rows.values_list("object_namespace", "object_name"))


def group_get(namespace: str, name: str) -> UnitGroupState:
    """Return a group.

    Raises:
        NotFound: If no unit of the group exists or is being created.
    """
    firsts = first_members().filter(namespace=namespace, group_name=name)
    states = group_states(list(firsts[:1]))
    if not states:
        msg = f"Unit group '{name}' not found in namespace '{namespace}'."
        raise NotFound(msg)
    return states[0]
