"""Log lines and metrics of an operation: one line when it is first claimed, one when it ends."""

import logging
from collections.abc import Mapping
from typing import Any

from gpuplatform import clock
from gpuplatform.errors import InsufficientCapacity
from gpuplatform.metrics.declared import (
    CLAIM_SECONDS,
    CLAIMS_REFUSED,
    OPERATIONS_ENDED,
    SUCCESS_SECONDS,
)
from gpuplatform.metrics.recorder import count, observe
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase

logger = logging.getLogger(__name__)


def operation_claimed(operation: Operation) -> None:
    """Record that a worker claimed the operation; repeated claims are not recorded."""
    is_first = operation.starts == 1 and not operation.reason  # Each wait leaves its reason.
    if is_first:
        seconds = _age_seconds(operation)
        observe(CLAIM_SECONDS, seconds, kind=operation.kind)
        logger.info("operation claimed", extra=_fields(operation, seconds))


def operation_ended(operation: Operation, phase: OperationPhase, code: str = "") -> None:
    """Record the end of the operation; `code` is that of its error."""
    seconds = _age_seconds(operation)
    count(OPERATIONS_ENDED, kind=operation.kind, phase=phase.value)
    if phase == OperationPhase.SUCCEEDED:
        observe(SUCCESS_SECONDS, seconds, kind=operation.kind)
    if code == InsufficientCapacity.code:
        count(CLAIMS_REFUSED, kind=operation.kind)
    outcome = {"phase": phase.value, "code": code}
    logger.info("operation ended", extra={**_fields(operation, seconds), **outcome})


def _fields(operation: Operation, seconds: float) -> Mapping[str, Any]:
    """Return the fields of a line; `seconds` is the time since the operation was accepted."""
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
