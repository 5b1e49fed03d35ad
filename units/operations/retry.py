"""Asking once more for what failed, through the services that its caller came by.

A seeding, and a removal of stock, that failed half-way is body for its rest.
"""

from typing import Any

from gpuplatform.errors import PhaseConflict
from gpuplatform.operations.registry import RetryRequest
from gpuplatform.operations.services import Accepted
from units.requests import GpuUnitCreate, GpuUnitUpdate, StockSeed
from units.selectors import stock_get
from units.services.stock import stock_remove, stock_remove_one, stock_seed
from units.services.units import (
    IF_MATCH,
    unit_create,
    unit_request_deletion,
    unit_start,
    unit_stop,
    unit_update,
)


def create(retry: RetryRequest) -> Accepted:
    """Ask for a unit of that name, on stock that is ready by now."""
    if "serverless" in retry.failed.payload:
        msg = "Workers of functions are replaced by the platform itself."
        raise PhaseConflict(msg)
    body = GpuUnitCreate.parse({**retry.payload(), "name": retry.failed.object_name})
    return unit_create(tenant=retry.failed.tenant, body=body)


def update(retry: RetryRequest) -> Accepted:
    """Ask for the same change of the same unit, in the same version where one was named."""
    payload = retry.payload()
    etag = payload.pop(IF_MATCH, None)
    failed, body = retry.failed, GpuUnitUpdate.parse(payload)
    accepted = unit_update(tenant=failed.tenant, name=failed.object_name, body=body, etag=etag)
    return retry.of_same_object(accepted)


def stop(retry: RetryRequest) -> Accepted:
    """Ask for the stop of the same unit."""
    return retry.of_same_object(unit_stop(**_unit(retry)))


def start(retry: RetryRequest) -> Accepted:
    """Ask for the start of the same unit, on stock that is ready by now."""
    return retry.of_same_object(unit_start(**_unit(retry)))


def delete(retry: RetryRequest) -> Accepted:
    """Ask for the deletion of the same unit."""
    return retry.of_same_object(unit_request_deletion(**_unit(retry)))


def seed(retry: RetryRequest) -> Accepted:
    """Ask for the stock that was not made."""
    body = StockSeed.parse({**retry.payload(), "replicas": _left(retry)})
    return stock_seed(tenant=retry.failed.tenant, body=body)


def remove(retry: RetryRequest) -> Accepted:
    """Ask for the removal of as much as was not removed, or of that very one."""
    name = retry.failed.payload.get("stockName")
    if name:
        return stock_remove_one(
            tenant=retry.failed.tenant,
            operation_id=retry.operation_id,
            stock=stock_get(str(name)),
        )
    return stock_remove(
        tenant=retry.failed.tenant,
        operation_id=retry.operation_id,
        spec_name=str(retry.failed.payload.get("specName", "")),
        number=_left(retry),
    )


def _unit(retry: RetryRequest) -> dict[str, Any]:
    failed = retry.failed
    return {
        "tenant": failed.tenant,
        "name": failed.object_name,
        "operation_id": retry.operation_id,
    }


def _left(retry: RetryRequest) -> int:
    return retry.failed.progress_total - retry.failed.progress_done
