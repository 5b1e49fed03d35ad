"""Accepts and records the stops and the starts of groups of units.

A group has no resource. Its stop or start is an operation on the group, which is accepted together
with one stop or start of each unit: all of them or none. A start claims a stock unit for each
unit, or is rejected. If the start of a unit fails, all units are stopped again.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import Final

from gpuplatform.errors import FieldError, InsufficientCapacity, NotFound, PhaseConflict
from gpuplatform.locks import take_turn
from gpuplatform.metrics.declared import CLAIMS_REJECTED
from gpuplatform.metrics.recorder import count
from gpuplatform.operations.automatic import automatic_id
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.services import (
    Accepted,
    Admission,
    Request,
    operation_accept,
    set_progress_total,
    take_turn_of_object,
)
from gpuplatform.tenancy.models import Tenant
from units.core.withheld import withheld_text
from units.group_members import group_get, members_live
from units.models import GpuUnit
from units.selectors import stock_withheld
from units.services.claims import claimed_gpus
from units.services.groups import open_starts
from units.services.names import GROUP_KIND, UNIT_KIND, UnitOperation
from units.services.queue import (
    Wanted,
    check_possible,
    claim_in_turn,
    earlier_operations,
    turn_of,
    wanted_by,
)
from units.services.quota import gpu_quota
from units.services.units import unit_stop
from units.waiting import requests_open

_ABANDONED: Final = "group-start-failed"
"""The purpose of the stops after a start of which a part failed."""


def group_stop(*, tenant: Tenant, name: str, operation_id: str) -> Accepted:
    """Accept a request to stop all units of a group, which keep their names and specs.

    Raises:
        NotFound: If the group does not exist.
        PhaseConflict: If units of the group are being created or deleted.
    """

    def prepare(operation: Operation) -> int:
        # Workers lock the row of their operation before the rows of units, in any order.
        earlier_operations(operation, (UnitOperation.GROUP_CREATE,))
        open_starts(tenant.namespace, name)
        units = _members(tenant, name)
        set_progress_total(operation, len(units))
        for place, unit in enumerate(units):
            unit_stop(
                tenant=tenant,
                name=unit.name,
                operation_id=_part_id(operation, place),
                also_of_group=True,
            )
        return group_get(tenant.namespace, name).first.pk

    request = Request(
        *(tenant, operation_id, UnitOperation.GROUP_STOP, GROUP_KIND, tenant.namespace, name),
        admission=Admission.ALWAYS,
    )
    return operation_accept(request, prepare=prepare, locks=_turns(tenant.namespace, name))


def group_start(*, tenant: Tenant, name: str, operation_id: str) -> Accepted:
    """Accept a request to start all units of a stopped group, and claim a stock unit for each.

    The request gets stock that the open requests of the GPU spec leave, and does not wait.

    Raises:
        NotFound: If the group does not exist.
        PhaseConflict: If units of the group are missing, running, or being created, started or
            deleted.
        InsufficientCapacity: If too few stock units can be claimed.
        CapacityExceeded: If the nodes could not have all units, even if they were empty.
        QuotaExceeded: If a limit of the tenant does not allow all units now.
    """

    def prepare(operation: Operation) -> int:
        first = group_get(tenant.namespace, name).first
        quota = gpu_quota(operation, operation.limits, first.spec_name)
        units = _members(tenant, name)
        _check_startable(name, units)
        set_progress_total(operation, len(units))
        # What the earlier pods of a unit still hold counts already.
        held = sum(min(unit.gpu, unit.gpus_seen) for unit in units)
        quota.check(sum(unit.gpu for unit in units) - held)
        stock = _claim_all(operation, units)
        quota.check(claimed_gpus(operation) - held)
        for place, (unit, row_id) in enumerate(zip(units, stock, strict=True)):
            _start(operation, _part_id(operation, place), unit, row_id)
        return first.pk

    request = Request(
        *(tenant, operation_id, UnitOperation.GROUP_START, GROUP_KIND, tenant.namespace, name),
        admission=Admission.WITHIN_LIMITS,
    )
    locks = _turns(tenant.namespace, name, claims=True)
    return operation_accept(request, prepare=prepare, locks=locks)


def group_parts(operation: Operation) -> list[Operation]:
    """Return the operations on the units that were accepted with an operation on their group."""
    numbers = [_part_id(operation, place) for place in range(operation.progress_total)]
    rows = Operation.objects.filter(tenant=operation.tenant_id, operation_id__in=numbers)
    return list(rows.order_by("id"))


def group_start_abandon(operation: Operation) -> None:
    """Request the stop of all units of a group, because the start of a unit failed.

    Nothing is requested if a later stop or start of the group was accepted, which decides about
    the units. Must be called in a transaction. A repeated call requests nothing.
    """
    names = sorted(part.object_name for part in group_parts(operation))
    for name in names:
        take_turn_of_object(UNIT_KIND, operation.object_namespace, name)
    if _has_later_run(operation):
        return
    for place, name in enumerate(names):
        # A unit that is deleted or is being deleted does not need a stop.
        with suppress(NotFound, PhaseConflict):
            unit_stop(
                tenant=operation.tenant,
                name=name,
                operation_id=automatic_id(_ABANDONED, operation.pk, place),
                also_of_group=True,
            )


def _has_later_run(operation: Operation) -> bool:
    """Return whether a stop or a start of the group was accepted after `operation`.

    The transaction must have the turns of the units, which each acceptance takes.
    """
    later = Operation.objects.filter(
        object_kind=GROUP_KIND,
        object_namespace=operation.object_namespace,
        object_name=operation.object_name,
        kind__in=(UnitOperation.GROUP_STOP, UnitOperation.GROUP_START),
        id__gt=operation.pk,
    )
    return later.exists()


def _part_id(operation: Operation, place: int) -> str:
    return automatic_id(operation.kind.replace(".", "-"), operation.pk, place)


def _turns(namespace: str, name: str, *, claims: bool = False) -> Callable[[], None]:
    """Return a function that takes the turns of all units of a group, and of its GPU spec."""

    def take() -> None:
        members = list(members_live(namespace, name).values_list("name", "spec_name"))
        for member in sorted(member for member, _ in members):
            take_turn_of_object(UNIT_KIND, namespace, member)
        for spec_name in sorted({spec_name for _, spec_name in members}) if claims else ():
            take_turn(turn_of(spec_name))

    return take


def _members(tenant: Tenant, name: str) -> Sequence[GpuUnit]:
    """Lock the units of a group, and return them in the order of their ids.

    Raises:
        PhaseConflict: If units are being created or deleted.
    """
    found = members_live(tenant.namespace, name)
    rows = GpuUnit.objects.filter(pk__in=found.values("pk")).select_related("tenant")
    units = list(rows.order_by("id").select_for_update(of=("self",), no_key=True))
    if any(unit.deletion_requested_at for unit in units):
        raise PhaseConflict(f"The unit group '{name}' is being deleted.")
    if not all(unit.uid for unit in units):
        msg = f"The unit group '{name}' is being created. Wait until it exists, or delete it."
        raise PhaseConflict(msg)
    return units


def _check_startable(name: str, units: Sequence[GpuUnit]) -> None:
    """Check that all units of a group exist and will be stopped after their open operations.

    Raises:
        PhaseConflict: If that is not the case.
    """
    size = int(units[0].spec["group"]["size"])
    if len(units) < size:
        msg = (
            f"Only {len(units)} of the {size} units of the group '{name}' exist. Delete the group"
            " and create it again."
        )
        raise PhaseConflict(msg)
    is_open = Operation.objects.filter(
        object_kind=UNIT_KIND,
        object_namespace=units[0].namespace,
        object_name__in=[unit.name for unit in units],
        kind__in=(UnitOperation.START, UnitOperation.STOP),
        phase__in=OPEN_PHASES,
    )
    last = dict(is_open.order_by("id").values_list("object_name", "kind"))
    for unit in units:
        kind = last.get(unit.name)
        is_stopped = unit.is_suspended or unit.is_ended
        if kind == UnitOperation.STOP or (kind is None and is_stopped):
            continue
        state = "running" if kind is None else "being started"
        msg = f"The GPU unit '{unit.name}' is {state}. Stop the group first."
        raise PhaseConflict(msg, details=[FieldError("group", name)])


def _claim_all(operation: Operation, units: Sequence[GpuUnit]) -> list[int]:
    """Claim a stock unit for each unit, and return their ids in the order of the units.

    Raises:
        InsufficientCapacity: If too few stock units are left.
        CapacityExceeded: If the nodes could not have all units, even if they were empty.
    """
    found: dict[int, int] = {}
    ordered = sorted(units, key=lambda unit: (unit.spec_name, unit.resource_name))
    for _, some in groupby(ordered, key=lambda unit: (unit.spec_name, unit.resource_name)):
        alike = list(some)
        wanted = replace(wanted_by(alike[0]), size=len(alike))
        claimed = claim_in_turn(operation, wanted)
        if claimed.stock is None:
            check_possible(wanted, "")
            count(CLAIMS_REJECTED, kind=UnitOperation.GROUP_START)
            raise _insufficient(wanted, claimed.left)
        rows = GpuUnit.objects.filter(claimed_by=operation).exclude(pk__in=found.values())
        numbers = rows.order_by("id").values_list("pk", flat=True)
        found |= dict(zip((unit.pk for unit in alike), numbers, strict=True))
    return [found[unit.pk] for unit in units]


def _start(operation: Operation, part_id: str, unit: GpuUnit, stock: int) -> None:
    """Accept the start of a unit with a stock unit that its group has claimed."""

    def prepare(part: Operation) -> int:
        GpuUnit.objects.filter(pk=stock, claimed_by=operation).update(claimed_by=part)
        return unit.pk

    place = (UNIT_KIND, unit.namespace, unit.name)
    request = Request(operation.tenant, part_id, UnitOperation.START, *place)
    operation_accept(request, prepare=prepare)


def _insufficient(wanted: Wanted, left: int) -> InsufficientCapacity:
    spec_name = wanted.spec_name
    withheld = withheld_text(stock_withheld(spec_name))
    msg = (
        f"The group needs {wanted.size} stock units of the GPU spec '{spec_name}', and {left} can"
        f" be claimed.{withheld} Try again later."
    )
    return InsufficientCapacity(msg, waiting=requests_open(spec_name).count())
