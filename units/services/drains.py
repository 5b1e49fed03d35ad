"""Requests the steps of the drain of a node. A drain that has ended requests no steps.

Each function locks the row of the drain. A cancellation deletes this row, so that a step is either
requested before the cancellation or not at all.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from gpuplatform.errors import NotFound, PhaseConflict
from gpuplatform.operations.automatic import automatic_id
from gpuplatform.operations.services import Accepted
from gpuplatform.tenancy.selectors import tenant_of
from inventory.models import NodeDrain
from units.models import GpuUnit
from units.services.stock import stock_move
from units.services.units import unit_request_deletion, unit_stop


def drain_move_stock(drain: NodeDrain, ids: Collection[int]) -> None:
    """Request the removal of unclaimed stock units, and of their replacements elsewhere."""
    rows = GpuUnit.objects.filter(pk__in=ids).order_by("spec_name")
    for spec_name in rows.values_list("spec_name", flat=True).distinct():
        with transaction.atomic():
            if _is_in_progress(drain):
                stock_move(spec_name, ids)


def drain_replace_worker(drain: NodeDrain, worker: GpuUnit) -> None:
    """Request the deletion of a worker, which finishes its invocations first."""
    with transaction.atomic():
        if _is_in_progress(drain):
            _request(unit_request_deletion, drain, worker)


def drain_stop_unit(drain: NodeDrain, unit: GpuUnit) -> bool:
    """Request the stop of a unit whose notice has expired, and return whether it was requested.

    A unit of a group is stopped, too: the group cannot continue on this node in any case.
    """
    with transaction.atomic():
        has_expired = _is_in_progress(drain, deadline__lte=Now())
        return has_expired and _request(partial(unit_stop, also_of_group=True), drain, unit)


def _is_in_progress(drain: NodeDrain, **conditions: Any) -> bool:
    """Return whether exactly this drain is in progress and meets the conditions; lock it."""
    rows = NodeDrain.objects.filter(pk=drain.pk, **conditions).select_for_update()
    return rows.first() is not None


def _request(service: Callable[..., Accepted], drain: NodeDrain, unit: GpuUnit) -> bool:
    """Request the end of a unit, and return whether it was not requested before.

    A unit that is being deleted is not changed. The same applies to a unit of a namespace without
    a tenant.
    """
    # A unit that is started again has another generation.
    operation_id = automatic_id("drain", drain.pk, unit.pk, unit.generation)
    request = {"tenant": unit.tenant or tenant_of(unit.namespace), "name": unit.name}
    with suppress(NotFound, PhaseConflict):
        return not service(**request, operation_id=operation_id).is_replay
    return False
