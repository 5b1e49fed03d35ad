"""Asking once more for what failed, through the services that its caller came by.

A seeding, and a removal of stock, that failed half-way is asked for its rest.
"""

from typing import Any

from gpuplatform.errors import PhaseConflict
from gpuplatform.operations.registry import Again
from gpuplatform.operations.services import Accepted
from units.requests import GpuUnitCreate, GpuUnitUpdate, StockSeed
from units.selectors import stock_get
from units.services import (
    IF_MATCH,
    stock_remove,
    stock_remove_one,
    stock_seed,
    unit_create,
    unit_request_deletion,
    unit_start,
    unit_stop,
    unit_update,
)


def create_again(again: Again) -> Accepted:
    """Ask for a unit of that name, on stock that is ready by now."""
    if "serverless" in again.failed.payload:
        msg = "Workers of functions are replaced by the platform itself."
        raise PhaseConflict(msg)
    asked = GpuUnitCreate.parse({**again.payload(), "name": again.failed.object_name})
    return unit_create(tenant=again.failed.tenant, asked=asked)


def update_again(again: Again) -> Accepted:
    """Ask for the same change of the same unit, in the same version where one was named."""
    payload = again.payload()
    etag = payload.pop(IF_MATCH, None)
    failed, asked = again.failed, GpuUnitUpdate.parse(payload)
    accepted = unit_update(tenant=failed.tenant, name=failed.object_name, asked=asked, etag=etag)
    return again.of_same_object(accepted)


def stop_again(again: Again) -> Accepted:
    """Ask for the stop of the same unit."""
    return again.of_same_object(unit_stop(**_unit(again)))


def start_again(again: Again) -> Accepted:
    """Ask for the start of the same unit, on stock that is ready by now."""
    return again.of_same_object(unit_start(**_unit(again)))


def delete_again(again: Again) -> Accepted:
    """Ask for the deletion of the same unit."""
    return again.of_same_object(unit_request_deletion(**_unit(again)))


def seed_again(again: Again) -> Accepted:
    """Ask for the stock that was not made."""
    asked = StockSeed.parse({**again.payload(), "replicas": _left(again)})
    return stock_seed(tenant=again.failed.tenant, asked=asked)


def remove_again(again: Again) -> Accepted:
    """Ask for the removal of as much as was not removed, or of that very one."""
    name = again.failed.payload.get("stockName")
    if name:
        return stock_remove_one(
            tenant=again.failed.tenant,
            operation_id=again.operation_id,
            stock=stock_get(str(name)),
        )
    return stock_remove(
        tenant=again.failed.tenant,
        operation_id=again.operation_id,
        spec_name=str(again.failed.payload.get("specName", "")),
        number=_left(again),
    )


def _unit(again: Again) -> dict[str, Any]:
    failed = again.failed
    return {
        "tenant": failed.tenant,
        "name": failed.object_name,
        "operation_id": again.operation_id,
    }


def _left(again: Again) -> int:
    return again.failed.progress_total - again.failed.progress_done
