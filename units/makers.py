"""Decides which operation created a unit, and which units are not wanted by their operation."""

from typing import Final

from django.db.models import QuerySet

from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import ENDED_PHASES, OperationPhase
from gpuplatform.operations.provenance import was_written_by_platform
from gpuplatform.operations.selectors import is_leftover
from units.models import GpuUnit
from units.phases import STOCK_NAMESPACE

GROUP_CREATE_KIND: Final = "group.create"
"""The operation kind that creates a group of units, and so several resources."""


def units_kept() -> QuerySet[GpuUnit]:
    """Return the rows of units that are never leftovers: all except the units of failed groups."""
    ended = (OperationPhase.FAILED, OperationPhase.CANCELLED)
    of_groups = {"operation__kind": GROUP_CREATE_KIND, "operation__phase__in": ended}
    return GpuUnit.objects.exclude(**of_groups)


def is_unit_leftover(unit: Manifest, operation: Operation | None) -> bool:
    """Return whether a late write created `unit` after its operation had ended without it.

    The caller must read `unit` before `operation`. A seeding and the creation of a group create
    several units and record the UID of each in its row.
    """
    metadata = unit["metadata"]
    is_one_of_several = operation is not None and operation.kind == GROUP_CREATE_KIND
    if metadata["namespace"] != STOCK_NAMESPACE and not is_one_of_several:
        return is_leftover(unit, operation)
    if operation is None or operation.phase not in ENDED_PHASES:
        return False
    if is_one_of_several and operation.phase != OperationPhase.SUCCEEDED:
        return was_written_by_platform(unit)  # A group is complete or has no units.
    rows = operation.gpu_units.filter(namespace=metadata["namespace"], name=metadata["name"])
    uids = set(rows.values_list("uid", flat=True))
    return bool(uids) and metadata["uid"] not in uids and was_written_by_platform(unit)


def is_made_by(unit: Manifest, operation: Operation) -> bool:
    """Return whether `operation`, if it succeeded, created exactly this active unit."""
    metadata = unit["metadata"]
    if operation.kind != GROUP_CREATE_KIND:
        return operation.object_uid == str(metadata["uid"])
    place = (metadata["namespace"], field(unit, "spec", "group", "name"))
    return place == (operation.object_namespace, operation.object_name)
