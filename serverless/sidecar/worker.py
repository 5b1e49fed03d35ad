"""Fetches invocations, calls the function and reports the outcomes."""

import asyncio
import logging
import random
from collections.abc import Coroutine
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, TypeVar

from nats.aio.msg import Msg

from serverless.queue.errors import QueueError
from serverless.queue.messages import (
    MAX_ERROR_LENGTH,
    EndReport,
    InvocationMessage,
    MalformedMessage,
    StartReport,
    State,
    decode_invocation,
)
from serverless.queue.pulling import Puller
from serverless.sidecar.function import (
    Function,
    FunctionError,
    FunctionResponse,
    FunctionTimeout,
)
from serverless.sidecar.queue_client import QueueClient
from serverless.sidecar.settings import Settings

logger = logging.getLogger(__name__)

PULL_SECONDS: Final = 2.0
"""Time in seconds that one fetch waits for a message. A drain waits for a fetch in progress."""

START_REPORT_SECONDS: Final = 0.05
"""Time in seconds after which the start of an invocation is reported, if it has not ended."""

QUEUE_RETRY_SECONDS: Final = 1.0
CANCEL_SECONDS: Final = 2.0
"""Time in seconds in which cancelled calls return their invocations to the queue."""


AnyT = TypeVar("AnyT")


class AccessDenied(Exception):
    """The queue rejects the credentials. The sidecar has to be restarted with new credentials."""


@dataclass(frozen=True, slots=True)
class _Delivery:
    """One delivery of an invocation to this worker."""

    message: Msg
    invocation: InvocationMessage
    start: StartReport

    @property
    def attempt(self) -> int:
        return self.start.attempt

    @property
    def is_expired(self) -> bool:
        """Whether the invocation has expired and must not be started.

        A repeated delivery has been started in time. If the clock of this node is ahead, the
        platform publishes the invocation again; that publication is not checked.
        """
        invocation = self.invocation
        is_first = self.attempt == 1 and invocation.publication == 1
        expires_at = invocation.expires_at
        return is_first and expires_at is not None and self.start.started_at >= expires_at


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of one attempt."""

    state: State
    failure_class: str = ""
    error: str = ""
    response: FunctionResponse | None = None
    is_retryable: bool = False


class Worker:
    """One worker of one function."""

    def __init__(self, settings: Settings, queue: QueueClient, function: Function) -> None:
        """Prepare the worker. It does nothing before `run`."""
        self._settings = settings
        self._queue = queue
        self._function = function
        self._calls: set[asyncio.Task[None]] = set()
        self._draining = asyncio.Event()
        self.drained = asyncio.Event()
        """Set when no invocation is in progress and no further one will be started."""

    @property
    def is_ready(self) -> bool:
        """Whether the worker can serve an invocation now."""
        return (
            self._queue.is_connected
            and self._function.healthy.is_set()
            and not self._draining.is_set()
        )

    def drain(self) -> None:
        """Stop fetching; `drained` is set when all invocations in progress have ended."""
        self._draining.set()

    async def run(self) -> None:
        """Serve invocations until the worker is drained.

        Raises:
            AccessDenied: If the queue rejects the credentials.
        """
        watching = asyncio.create_task(self._function.watch())
        try:
            await self._serve()
            await self._finish()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _serve(self) -> None:
        """Fetch and handle invocations until the drain, at most `concurrency` at a time."""
        puller = await self._or_drain(self._queue.open())
        while puller is not None and not self._draining.is_set():
            await self._or_drain(self._function.healthy.wait())
            await self._or_drain(self._wait_for_capacity())
            if self._draining.is_set():
                return
            for message in await self._fetch(puller, self._capacity):
                call = asyncio.create_task(self._handle(message))
                self._calls.add(call)
                call.add_done_callback(self._remove)

    async def _or_drain(self, coroutine: Coroutine[Any, Any, AnyT]) -> AnyT | None:
        """Return the result of the coroutine, or `None` if the drain begins first."""
        task = asyncio.create_task(coroutine)
        draining = asyncio.create_task(self._draining.wait())
        await asyncio.wait({task, draining}, return_when=asyncio.FIRST_COMPLETED)
        draining.cancel()
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return None

    @property
    def _capacity(self) -> int:
        """Number of invocations that can be started now."""
        return self._settings.concurrency - len(self._calls)

    async def _wait_for_capacity(self) -> None:
        while self._capacity < 1:
            await asyncio.wait(self._calls, return_when=asyncio.FIRST_COMPLETED)

    async def _fetch(self, puller: Puller, batch: int) -> list[Msg]:
        try:
            return await puller.fetch(batch, PULL_SECONDS)
        except QueueError as error:
            if self._queue.is_closed:
                raise AccessDenied(str(error)) from error
            logger.warning("fetching failed: %s", error)
            await self._or_drain(asyncio.sleep(QUEUE_RETRY_SECONDS))
            return []

    def _remove(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        if not call.cancelled() and call.exception() is not None:
            # A bug of the sidecar: the queue delivers the invocation again.
            logger.error("handling an invocation failed", exc_info=call.exception())

    async def _finish(self) -> None:
        """Wait for the invocations in progress, then return the unfinished ones to the queue."""
        calls = set(self._calls)
        if calls:
            logger.info("%d invocations are in progress", len(calls))
            _, unfinished = await asyncio.wait(calls, timeout=self._settings.drain_seconds)
            for call in unfinished:
                call.cancel()
            if unfinished:
                await asyncio.wait(unfinished, timeout=CANCEL_SECONDS)
        self.drained.set()

    # One invocation.

    async def _handle(self, message: Msg) -> None:
        metadata = message.metadata
        try:
            invocation = decode_invocation(message.headers, message.data)
        except MalformedMessage as error:
            logger.warning("message %d is rejected: %s", metadata.sequence.stream, error)
            await self._queue.reject(message, str(error))
            return
        start = StartReport(
            key=invocation.key,
            publication=invocation.publication,
            receipt=invocation.receipt,
            attempt=metadata.num_delivered,
            sequence=metadata.sequence.stream,
            worker=self._settings.worker_name,
            started_at=datetime.now(UTC),
        )
        delivery = _Delivery(message, invocation, start)
        if delivery.is_expired:
            outcome = _Outcome("Expired", "queue_timeout", "The worker received it too late.")
            await self._queue.report_end(message, _end_report(delivery, outcome))
            return
        progress = asyncio.create_task(self._report_progress(message))
        try:
            await self._process(delivery)
        except asyncio.CancelledError:
            await self._queue.postpone(message, 0)
            raise
        finally:
            progress.cancel()

    async def _report_progress(self, message: Msg) -> None:
        """Report progress until cancelled, so that no other worker receives the message."""
        while True:
            await asyncio.sleep(self._settings.progress_seconds)
            await self._queue.report_progress(message)

    async def _process(self, delivery: _Delivery) -> None:
        reporting = asyncio.create_task(self._report_start(delivery))
        try:
            outcome = await self._call(delivery)
        finally:
            is_reported = reporting.done()
            reporting.cancel()
        settings, attempt = self._settings, delivery.attempt
        if outcome.is_retryable and not settings.is_last(attempt):
            jitter = random.uniform(0.9, 1.1)  # noqa: S311 - only spreads load
            logger.info("retrying %s: %s", delivery.invocation.invocation_id, outcome.error)
            if not is_reported:
                await self._queue.report_start(delivery.start)
            await self._queue.postpone(delivery.message, settings.delay(attempt) * jitter)
            return
        await self._queue.report_end(delivery.message, _end_report(delivery, outcome))

    async def _report_start(self, delivery: _Delivery) -> None:
        """Report the start unless the invocation ends immediately: the end report includes it.

        The start of the last attempt, and of each attempt after the first, is reported without a
        delay, because an invocation that crashes its workers has no end report.
        """
        attempt = delivery.attempt
        if attempt == 1 and not self._settings.is_last(attempt):
            await asyncio.sleep(START_REPORT_SECONDS)
        await self._queue.report_start(delivery.start)

    async def _call(self, delivery: _Delivery) -> _Outcome:
        invocation = delivery.invocation
        try:
            response = await self._function.invoke(invocation, delivery.attempt)
        except FunctionTimeout:
            seconds = invocation.timeout_seconds
            timeout = f"{seconds} second{'' if seconds == 1 else 's'}"
            message = f"The function did not respond within {timeout}."
            return _Outcome("Expired", "framework_timeout", message)
        except FunctionError as error:
            return _Outcome("Failed", "framework_error", str(error), is_retryable=True)
        status = response.status_code
        if status < 400:
            return _Outcome("Succeeded", response=response)
        message = f"The function responded with status {status}."
        is_retryable = status >= 500 or status == HTTPStatus.TOO_MANY_REQUESTS
        return _Outcome("Failed", "framework_error", message, response, is_retryable)


def _end_report(delivery: _Delivery, outcome: _Outcome) -> EndReport:
    report = EndReport(
        **delivery.start.model_dump(exclude={"type"}),
        **(asdict(outcome.response) if outcome.response else {}),
        state=outcome.state,
        failure_class=outcome.failure_class,
        error=outcome.error[:MAX_ERROR_LENGTH],
        completed_at=datetime.now(UTC),
    )
    return report.without_cut_success()
