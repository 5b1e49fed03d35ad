"""Requests failed operations again through the services that accepted them.

A seeding or a removal is requested again for the remaining stock units only.
"""

from typing import Any

from gpuplatform.errors import PhaseConflict
from gpuplatform.operations.registry import RetryRequest
from gpuplatform.operations.services import Accepted
from gpuplatform.operations.versions import IF_MATCH
from units.requests import GpuUnitCreate, GpuUnitUpdate, StockSeed, Wait
from units.selectors import stock_get
from units.services.stock import stock_remove, stock_remove_one, stock_seed
from units.services.units import (
    unit_create,
    unit_request_deletion,
    unit_start,
    unit_stop,
    unit_update,
)


def create(retry: RetryRequest) -> Accepted:
    """Request the creation of the unit again, with a currently ready stock unit."""
    if "serverless" in retry.failed.payload:
        msg = "The platform replaces workers of functions automatically."
        raise PhaseConflict(msg)
    body = GpuUnitCreate.parse({**retry.payload(), "name": retry.failed.object_name})
    return unit_create(tenant=retry.failed.tenant, body=body)


def update(retry: RetryRequest) -> Accepted:
    """Request the change of the unit again, for the same version if one was specified."""
    payload = retry.payload()
    etag = payload.pop(IF_MATCH, None)
    failed, body = retry.failed, GpuUnitUpdate.parse(payload)
    accepted = unit_update(tenant=failed.tenant, name=failed.object_name, body=body, etag=etag)
    return retry.of_same_object(accepted)


def stop(retry: RetryRequest) -> Accepted:
    """Request the stop of the unit again."""
    return retry.of_same_object(unit_stop(**_unit(retry)))


def start(retry: RetryRequest) -> Accepted:
    """Request the start of the unit again, with a currently ready stock unit."""
    wait = retry.failed.payload.get("wait")
    parsed = None if wait is None else Wait.parse(wait)
    return retry.of_same_object(unit_start(**_unit(retry), wait=parsed))


def delete(retry: RetryRequest) -> Accepted:
    """Request the deletion of the unit again."""
    return retry.of_same_object(unit_request_deletion(**_unit(retry)))


def seed(retry: RetryRequest) -> Accepted:
    """Request the seeding of the stock units that were not created."""
    body = StockSeed.parse({**retry.payload(), "replicas": _remaining(retry)})
    return stock_seed(tenant=retry.failed.tenant, body=body)


def remove(retry: RetryRequest) -> Accepted:
    """Request the removal of the remaining stock units, or of the named stock unit."""
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
        number=_remaining(retry),
    )


def _unit(retry: RetryRequest) -> dict[str, Any]:
    failed = retry.failed
    return {
        "tenant": failed.tenant,
        "name": failed.object_name,
        "operation_id": retry.operation_id,
    }


def _remaining(retry: RetryRequest) -> int:
    return retry.failed.progress_total - retry.failed.progress_done
