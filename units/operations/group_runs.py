"""Executes the stops and starts of groups of units, which consist of operations on the units.

The operation on the group ends when those on its units have ended.
"""

from typing import Final

from gpuplatform.kube.client import Cluster
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES, OperationPhase, OperationWait
from gpuplatform.operations.registry import (
    Checkpoint,
    Done,
    Failed,
    Outcome,
    RetryRequest,
    Step,
    Waiting,
)
from gpuplatform.operations.services import Accepted
from units.services.group_runs import group_parts, group_start, group_start_abandon, group_stop

PART_SECONDS: Final = 1.0
"""Time in seconds between two reads of the operations on the units."""


def stop(_: Cluster, operation: Operation) -> Step:
    """Wait until all units are stopped. A stop of a unit never fails permanently."""
    return _failure(operation) or _progress(operation)


def start(_: Cluster, operation: Operation) -> Step:
    """Wait until all units are started, or request the stop of all units if a start failed."""
    failure = _failure(operation)
    if failure is None:
        return _progress(operation)

    def record(fresh: Operation) -> Outcome:
        group_start_abandon(fresh)
        return failure

    return Checkpoint(record)


def retry_stop(retry: RetryRequest) -> Accepted:
    """Request the stop of the group again."""
    failed = retry.failed
    accepted = group_stop(
        tenant=failed.tenant, name=failed.object_name, operation_id=retry.operation_id
    )
    return retry.of_same_object(accepted)


def retry_start(retry: RetryRequest) -> Accepted:
    """Request the start of the group again, with currently ready stock."""
    failed = retry.failed
    accepted = group_start(
        tenant=failed.tenant, name=failed.object_name, operation_id=retry.operation_id
    )
    return retry.of_same_object(accepted)


def _failure(operation: Operation) -> Failed | None:
    """Return the failure of the first unit whose operation failed or was cancelled."""
    for part in group_parts(operation):
        if part.phase == OperationPhase.FAILED:
            message = f"GPU unit '{part.object_name}': {part.error_message}"
            return Failed(part.error_code, message, retryable=part.error_retryable)
        if part.phase == OperationPhase.CANCELLED:
            message = f"The operation on the GPU unit '{part.object_name}' was cancelled."
            return Failed("cancelled", message, retryable=True)
    return None


def _progress(operation: Operation) -> Outcome:
    parts = group_parts(operation)
    left = sum(part.phase in OPEN_PHASES for part in parts)
    if not left:
        return Done()
    message = f"The operations on {left} of {len(parts)} units have not ended."
    return Waiting(OperationWait.PROGRESSING, message, PART_SECONDS)
