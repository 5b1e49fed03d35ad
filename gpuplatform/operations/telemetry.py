"""Logs and metrics of operations: a log line at the first claim and a log line at the end."""

import logging
from collections.abc import Mapping
from typing import Any

from gpuplatform import clock
from gpuplatform.errors import InsufficientCapacity
from gpuplatform.metrics.declared import (
    CLAIM_SECONDS,
    CLAIMS_REJECTED,
    OPERATIONS_ENDED,
    SUCCESS_SECONDS,
)
from gpuplatform.metrics.recorder import count, observe
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase

logger = logging.getLogger(__name__)


def operation_claimed(operation: Operation) -> None:
    """Record the first claim of an operation by a worker. Later claims are ignored."""
    is_first = (
        operation.starts == 1 and not operation.reason
    )  # A run that ends in a wait sets the reason.
    if is_first:
        seconds = _age_seconds(operation)
        observe(CLAIM_SECONDS, seconds, kind=operation.kind)
        logger.info("operation claimed", extra=_fields(operation, seconds))


def operation_ended(operation: Operation, phase: OperationPhase, code: str = "") -> None:
    """Record the end of an operation. `code` is the error code of a failure."""
    seconds = _age_seconds(operation)
    count(OPERATIONS_ENDED, kind=operation.kind, phase=phase.value)
    if phase == OperationPhase.SUCCEEDED:
        observe(SUCCESS_SECONDS, seconds, kind=operation.kind)
    if code == InsufficientCapacity.code:
        count(CLAIMS_REJECTED, kind=operation.kind)
    outcome = {"phase": phase.value, "code": code}
    logger.info("operation ended", extra={**_fields(operation, seconds), **outcome})


def _fields(operation: Operation, seconds: float) -> Mapping[str, Any]:
    """Return the fields of a log line. `seconds` is the time since the acceptance."""
    place = (operation.object_kind, operation.object_namespace, operation.object_name)
    return {
        "operationID": operation.operation_id,
        "kind": operation.kind,
        "tenant": operation.tenant.name,
        "asked_by": operation.asked_by,
        "object": "/".join(place),
        "seconds": round(seconds, 3),
        "traceID": operation.trace_id,
    }


def _age_seconds(operation: Operation) -> float:
    return (clock.now() - operation.created_at).total_seconds()
