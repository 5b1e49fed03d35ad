"""The sidecar's one connection to the queue, with the rights of its own function only."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from gpuplatform.nats.keys import BadKey
from gpuplatform.nats.tokens import Credentials
from serverless.queue.messages import MSG_ID, Finished, Started
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

CONNECT_SECONDS: Final = 3.0
CALL_SECONDS: Final = 5.0
ACK_SECONDS: Final = 4.0
MOST_UNANSWERED: Final = 3
"""Acknowledgements without an answer from a server that is there."""

RETRY_SECONDS: Final = (0.2, 5.0)
_REASON_LENGTH: Final = 200


class Connection:
    """Connects, and comes back by itself after each interruption."""

    def __init__(self, settings: Settings) -> None:
        """Nothing is connected before `open`."""
        self._settings = settings
        self._client = Client()
        self._results = result_subject(settings.tenant, settings.function)

    @property
    def is_connected(self) -> bool:
        """Whether the server is there at this moment."""
        return self._client.is_connected

    @property
    def is_lost(self) -> bool:
        """Whether it will not come back by itself: the server does not let this worker in."""
        return self._client.is_closed

    async def open(self) -> Puller:
        """Connect, for as long as it takes, and return what pulls the function's invocations."""
        delay, longest = RETRY_SECONDS
        while True:
            try:
                await self._connect()
            except (nats.errors.Error, OSError, BadKey) as error:
                logger.warning("the queue cannot be reached: %s", _words(error))
                await self._client.close()
                self._client = Client()
                await asyncio.sleep(delay)
                delay = min(delay * 2, longest)
            else:
                logger.info("connected to the queue")
                return Puller(self._client, INVOCATIONS, consumer_name(self._settings.function))

    async def close(self) -> None:
        """Send what is to be sent, then disconnect."""
        if self._client.is_connected:
            try:
                await self._client.flush(2)
            except (nats.errors.Error, OSError) as error:
                logger.info("the queue is gone before the end: %s", error)
        await self._client.close()

    async def announce(self, report: Started) -> None:
        """Say that an invocation began; nobody waits for an answer, and it may be lost."""
        headers = {MSG_ID: report.message_id}
        await self._send(self._results, report.encode(), headers)

    async def conclude(self, message: Msg, report: Finished) -> None:
        """Store the report in the stream of results, then acknowledge the invocation.

        The first is tried until the server says that it did it; cancel to give up. What was stored
        and not acknowledged comes again, and its second report changes nothing.
        """
        headers = {MSG_ID: report.message_id}
        body = report.encode()
        if len(body) > self._client.max_payload:  # A server that was set up for smaller ones.
            body = report.model_copy(update={"body": b"", "truncated": True}).encode()

        async def store() -> None:
            await self._client.jetstream(timeout=CALL_SECONDS).publish(
                self._results, body, stream=RESULTS, headers=headers
            )

        await _until_done("the result is not stored yet", store)
        await self._acknowledge(message)

    async def _acknowledge(self, message: Msg) -> None:
        """Have the server say that it heard; not for ever, if it is there and does not.

        A consumer that was deleted and made again answers nothing about what the earlier one gave
        out. Whoever waited for that would never take anything else.
        """
        unanswered = 0
        while unanswered < MOST_UNANSWERED:
            try:
                await self._client.request(message.reply, b"+ACK", timeout=ACK_SECONDS)
            except (nats.errors.Error, OSError) as error:
                unanswered += self._client.is_connected
                logger.warning("the invocation is not acknowledged yet: %s", _words(error))
                await asyncio.sleep(RETRY_SECONDS[0])
            else:
                return
        logger.warning(
            "an acknowledgement is not heard; if it is missed, the invocation comes again"
        )

    async def progress(self, message: Msg) -> None:
        """Say that the invocation is still in work."""
        await self._send(message.reply, b"+WPI")

    async def postpone(self, message: Msg, seconds: float) -> None:
        """Have the invocation given to a worker again after so long."""
        body = b"-NAK " + json.dumps({"delay": int(seconds * 1e9)}).encode()
        await self._send(message.reply, body)

    async def refuse(self, message: Msg, reason: str) -> None:
        """Say that nobody shall get this message again, and why."""
        plain = reason.encode("ascii", "replace").decode()[:_REASON_LENGTH]
        await self._send(message.reply, TERMINATE + b" " + plain.encode())

    async def _send(
        self, subject: str, body: bytes, headers: dict[str, str] | None = None
    ) -> None:
        try:
            await self._client.publish(subject, body, headers=headers)
        except (nats.errors.Error, OSError) as error:
            logger.info("the queue does not hear something: %s", _words(error))

    async def _connect(self) -> None:
        settings = self._settings
        path = settings.credentials_directory / CREDENTIALS_KEY
        credentials = Credentials.from_file(path.read_text())
        options: dict[str, Any] = {
            **credentials.callbacks(),
            "name": settings.worker,
            "inbox_prefix": inbox_prefix(settings.function).encode(),
            "connect_timeout": CONNECT_SECONDS,
            "reconnect_time_wait": 0.2,
            "max_reconnect_attempts": -1,
            "ping_interval": 10,
            "pending_size": 16 * 1024 * 1024,
            "error_cb": _log,
        }
        connecting = self._client.connect(settings.queue_url, **options)
        await asyncio.wait_for(connecting, CONNECT_SECONDS)


async def _until_done(what: str, call: Callable[[], Awaitable[None]]) -> None:
    delay, longest = RETRY_SECONDS
    while True:
        try:
            await call()
        except (nats.errors.Error, nats.js.errors.Error, OSError) as error:
            logger.warning("%s: %s", what, _words(error))
            await asyncio.sleep(delay)
            delay = min(delay * 2, longest)
        else:
            return


async def _log(error: Exception) -> None:
    logger.info("the connection to the queue: %s", _words(error))


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
