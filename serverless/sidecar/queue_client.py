"""The sidecar's client of the queue, with the permissions of its function's workers."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Final

from nats.aio.client import Client
from nats.aio.msg import Msg

from gpuplatform.nats.keys import BadKey
from gpuplatform.nats.tokens import Credentials
from serverless.queue.connection import CALL_ERRORS, CALL_SECONDS, connect, describe
from serverless.queue.errors import QueueUnavailable
from serverless.queue.messages import MSG_ID, EndReport, StartReport
from serverless.queue.names import (
    CREDENTIALS_KEY,
    INVOCATIONS,
    RESULTS,
    consumer_name,
    inbox_prefix,
    result_subject,
)
from serverless.queue.pulling import TERMINATE, Puller
from serverless.sidecar.settings import Settings

logger = logging.getLogger(__name__)

ACK_SECONDS: Final = 4.0
MAX_UNCONFIRMED: Final = 3
"""Maximum number of acknowledgements that a connected server does not confirm."""

RETRY_SECONDS: Final = 0.2
MAX_RETRY_SECONDS: Final = 5.0
_REASON_LENGTH: Final = 200


class QueueClient:
    """A reconnecting client that fetches invocations and reports their outcomes."""

    def __init__(self, settings: Settings) -> None:
        """Prepare the client. It connects when `open` is called."""
        self._settings = settings
        self._client = Client()
        self._results = result_subject(settings.tenant, settings.function_id)

    @property
    def is_connected(self) -> bool:
        """Whether the client is connected to the server."""
        return self._client.is_connected

    @property
    def is_closed(self) -> bool:
        """Whether the client no longer reconnects because the server rejects the credentials."""
        return self._client.is_closed

    async def open(self) -> Puller:
        """Connect, retry until connected, and return the puller of the function's invocations."""
        settings, delay = self._settings, RETRY_SECONDS
        path = settings.credentials_directory / CREDENTIALS_KEY
        while True:
            try:
                self._client = await connect(
                    settings.queue_url,
                    Credentials.from_file(path.read_text()),
                    name=settings.worker_name,
                    inbox_prefix=inbox_prefix(settings.function_id),
                )
            except (QueueUnavailable, OSError, BadKey) as error:
                logger.warning("the queue cannot be reached: %s", describe(error))
                await asyncio.sleep(delay)
                delay = min(delay * 2, MAX_RETRY_SECONDS)
            else:
                logger.info("connected to the queue")
                return Puller(self._client, INVOCATIONS, consumer_name(settings.function_id))

    async def close(self) -> None:
        """Flush the connection, then close it."""
        if self._client.is_connected:
            try:
                await self._client.flush(2)
            except CALL_ERRORS as error:
                logger.info("the connection was lost before the last flush: %s", describe(error))
        await self._client.close()

    async def report_start(self, report: StartReport) -> None:
        """Publish the report without waiting for a confirmation; the report can be lost."""
        headers = {MSG_ID: report.message_id}
        await _sent(self._client.publish(self._results, report.encode(), headers=headers))

    async def report_end(self, message: Msg, report: EndReport) -> None:
        """Store the report in the stream of results, then acknowledge the invocation.

        The client publishes the report again until the server confirms it or this call is
        cancelled. If the acknowledgement is lost, the invocation is delivered again, and its
        second report changes nothing.
        """
        body = report.encode()
        if len(body) > self._client.max_payload:  # The server is configured with a lower limit.
            report = report.model_copy(update={"body": b"", "truncated": True})
            body = report.without_cut_success().encode()
        delay = RETRY_SECONDS
        while True:
            try:
                await self._client.jetstream(timeout=CALL_SECONDS).publish(
                    self._results, body, stream=RESULTS, headers={MSG_ID: report.message_id}
                )
            except CALL_ERRORS as error:
                logger.warning("the result is not stored yet: %s", describe(error))
                await asyncio.sleep(delay)
                delay = min(delay * 2, MAX_RETRY_SECONDS)
            else:
                break
        await self._acknowledge(message)

    async def report_progress(self, message: Msg) -> None:
        """Extend the time in which the invocation is not delivered to another worker."""
        await _sent(message.in_progress())

    async def postpone(self, message: Msg, seconds: float) -> None:
        """Have the invocation delivered again after a delay in seconds."""
        await _sent(message.nak(seconds))

    async def reject(self, message: Msg, reason: str) -> None:
        """Reject the message permanently, so that it is not delivered again."""
        plain = reason.encode("ascii", "replace")[:_REASON_LENGTH]
        await _sent(self._client.publish(message.reply, TERMINATE + b" " + plain))

    async def _acknowledge(self, message: Msg) -> None:
        """Acknowledge the message until the server confirms it, or up to `MAX_UNCONFIRMED` times.

        If the consumer was deleted and created again, the server never confirms deliveries of the
        earlier consumer. A worker without this limit would wait forever.
        """
        unconfirmed = 0
        while unconfirmed < MAX_UNCONFIRMED:
            try:
                await message.ack_sync(timeout=ACK_SECONDS)
            except CALL_ERRORS as error:
                unconfirmed += self._client.is_connected
                logger.warning("the invocation is not acknowledged yet: %s", describe(error))
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return
        logger.warning("the acknowledgement is not confirmed; the invocation may be repeated")


async def _sent(sending: Awaitable[None]) -> None:
    """Await the sending of a message, and log its failure."""
    try:
        await sending
    except CALL_ERRORS as error:
        logger.info("a message to the queue is lost: %s", describe(error))
