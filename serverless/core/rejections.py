"""The status and the backoff of a function whose next worker does not start. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from gpuplatform.planning.backoff import backoff_seconds
from serverless.core.scaling import (
    Backoff,
    FunctionView,
    Status,
    Worker,
    WorkerState,
    failed_status,
    no_capacity,
    no_spec,
    workers_in,
)
from serverless.phases import FunctionReason

MAX_BACKOFF_WITHOUT_CAPACITY: Final = 10.0
"""Maximum delay in seconds without stock. It is short because an attempt to claim is cheap."""


def without_capacity(
    function: FunctionView, workers: Sequence[Worker], spec_name: str, now: datetime
) -> tuple[Status, Backoff]:
    """Return the status and the backoff of a function without stock for its next worker.

    If the last workers failed to start, that failure remains the reason, because more stock would
    not help.
    """
    failures = function.start_failures + 1
    seconds = backoff_seconds(failures, longest=MAX_BACKOFF_WITHOUT_CAPACITY)
    backoff = Backoff(failures, now + timedelta(seconds=seconds))
    ready = len(workers_in(workers, WorkerState.READY))
    if function.cannot_start and not ready:
        return failed_status(function), backoff
    return no_capacity(function, ready, stock_missing(spec_name), now), backoff


def without_stock(
    function: FunctionView, workers: Sequence[Worker], spec_name: str, now: datetime
) -> Status:
    """Return the status of a function whose next worker waits for stock."""
    ready = len(workers_in(workers, WorkerState.READY))
    if function.cannot_start and not ready:
        return failed_status(function)
    return no_capacity(function, ready, stock_missing(spec_name), now)


def stock_missing(spec_name: str) -> str:
    """Return the message about a worker that waits for stock."""
    return f"No stock of the GPU spec '{spec_name}' is ready. Invocations remain queued."


def without_quota(
    function: FunctionView, workers: Sequence[Worker], message: str, now: datetime
) -> tuple[Status, Backoff]:
    """Return the status and the backoff of a function whose tenant has reached a limit.

    `message` names the limit. A failure of the last starts remains the reason, as in
    `without_capacity`.
    """
    failures = function.start_failures + 1
    seconds = backoff_seconds(failures, longest=MAX_BACKOFF_WITHOUT_CAPACITY)
    backoff = Backoff(failures, now + timedelta(seconds=seconds))
    ready = len(workers_in(workers, WorkerState.READY))
    if function.cannot_start and not ready:
        return failed_status(function), backoff
    return no_capacity(function, ready, message, now, FunctionReason.QUOTA_REACHED), backoff


def quota_reached(spec_name: str) -> str:
    """Return the message about a worker that waits because of a limit of the tenant."""
    return (
        f"The tenant has reached its limit of GPUs for the GPU spec '{spec_name}'. Invocations"
        " remain queued."
    )


def without_spec(
    function: FunctionView, workers: Sequence[Worker], spec_name: str, now: datetime
) -> tuple[Status, Backoff]:
    """Return the status and the backoff of a function whose GPU spec is not available.

    The phase is `Failed` if no worker is ready, because only a user or an operator can help.
    """
    failures = function.start_failures + 1
    seconds = backoff_seconds(failures, longest=MAX_BACKOFF_WITHOUT_CAPACITY)
    message = (
        f"The GPU spec '{spec_name}' is disabled or not in the catalogue. Invocations remain"
        " queued."
    )
    status = no_spec(len(workers_in(workers, WorkerState.READY)), message)
    return status, Backoff(failures, now + timedelta(seconds=seconds))
