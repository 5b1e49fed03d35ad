"""The sidecar's client of the queue, with the permissions of its function's workers."""

import asyncio
import json
import logging
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
MAX_UNANSWERED: Final = 3
"""Maximum number of acknowledgements that a connected server leaves unanswered."""

RETRY_SECONDS: Final = 0.2
MAX_RETRY_SECONDS: Final = 5.0
_REASON_LENGTH: Final = 200


class QueueClient:
    """Fetches the function's invocations and reports on them; reconnects automatically."""

    def __init__(self, settings: Settings) -> None:
        """Nothing is connected before `open`."""
        self._settings = settings
        self._client = Client()
        self._results = result_subject(settings.tenant, settings.function)

    @property
    def is_connected(self) -> bool:
        """Whether the server is connected now."""
        return self._client.is_connected

    @property
    def is_closed(self) -> bool:
        """Whether it does not reconnect: the server refuses the credentials."""
        return self._client.is_closed

    async def open(self) -> Puller:
        """Connect, for as long as it takes; return the puller of the function's invocations."""
        settings, delay = self._settings, RETRY_SECONDS
        path = settings.credentials_directory / CREDENTIALS_KEY
        while True:
            try:
                self._client = await connect(
                    settings.queue_url,
                    Credentials.from_file(path.read_text()),
                    name=settings.worker,
                    inbox_prefix=inbox_prefix(settings.function),
                )
            except (QueueUnavailable, OSError, BadKey) as error:
                logger.warning("the queue cannot be reached: %s", describe(error))
                await asyncio.sleep(delay)
                delay = min(delay * 2, MAX_RETRY_SECONDS)
            else:
                logger.info("connected to the queue")
                return Puller(self._client, INVOCATIONS, consumer_name(settings.function))

    async def close(self) -> None:
        """Flush, then disconnect."""
        if self._client.is_connected:
            try:
                await self._client.flush(2)
            except CALL_ERRORS as error:
                logger.info("the queue was lost before the last flush: %s", describe(error))
        await self._client.close()

    async def report_start(self, report: StartReport) -> None:
        """Publish the report without waiting for an answer; it may be lost."""
        await self._send(self._results, report.encode(), {MSG_ID: report.message_id})

    async def report_end(self, message: Msg, report: EndReport) -> None:
        """Store the report in the stream of results, then acknowledge the invocation.

        The report is published until the server confirms it, or this call is cancelled. If the
        acknowledgement is lost, the invocation is delivered again, and its second report changes
        nothing.
        """
        body = report.encode()
        if len(body) > self._client.max_payload:  # The server is configured with a lower limit.
            body = report.model_copy(update={"body": b"", "truncated": True}).encode()
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
        await self._send(message.reply, b"+WPI")

    async def postpone(self, message: Msg, seconds: float) -> None:
        """Have the invocation delivered again after a delay."""
        body = b"-NAK " + json.dumps({"delay": int(seconds * 1e9)}).encode()
        await self._send(message.reply, body)

    async def refuse(self, message: Msg, reason: str) -> None:
        """Refuse the message for good: it is not delivered again."""
        plain = reason.encode("ascii", "replace").decode()[:_REASON_LENGTH]
        await self._send(message.reply, TERMINATE + b" " + plain.encode())

    async def _acknowledge(self, message: Msg) -> None:
        """Acknowledge until the server confirms it, but not for ever.

        A consumer that was deleted and created again never confirms deliveries of the earlier one,
        and a worker that waited for that would never fetch anything else.
        """
        unanswered = 0
        while unanswered < MAX_UNANSWERED:
            try:
                await self._client.request(message.reply, b"+ACK", timeout=ACK_SECONDS)
            except CALL_ERRORS as error:
                unanswered += self._client.is_connected
                logger.warning("the invocation is not acknowledged yet: %s", describe(error))
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return
        logger.warning("the acknowledgement is unanswered; the invocation may be delivered again")

    async def _send(
        self, subject: str, body: bytes, headers: dict[str, str] | None = None
    ) -> None:
        try:
            await self._client.publish(subject, body, headers=headers)
        except CALL_ERRORS as error:
            logger.info("a message to the queue is lost: %s", describe(error))
