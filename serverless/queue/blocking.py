"""Blocking calls to the queue from any thread, executed on an event loop with a timeout."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

import nats.js.errors
from nats.aio.client import Client
from nats.js.client import JetStreamContext

from serverless.queue.connection import CALL_ERRORS, CALL_SECONDS, CONNECT_SECONDS, describe
from serverless.queue.errors import QueueError, QueueRejected, QueueUnavailable

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")


class BlockingConnection:
    """A connection to the queue server, which each call opens if necessary."""

    def __init__(self, connect: Callable[[], Awaitable[Client]]) -> None:
        """Start the thread; `connect` returns a connected client or raises a `QueueError`."""
        self._connect = connect
        self._client: Client | None = None
        self._loop = asyncio.new_event_loop()
        self._connecting = asyncio.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name="queue", daemon=True)
        self._thread.start()

    @property
    def client(self) -> Client:
        """The connected client.

        Raises:
            QueueUnavailable: If the connection is lost.
        """
        if self._client is None or not self._client.is_connected:
            raise QueueUnavailable("The queue server is not connected.")
        return self._client

    def call(
        self, call: Callable[[JetStreamContext], Awaitable[ResultT]], seconds: float = CALL_SECONDS
    ) -> ResultT:
        """Run `call` on the event loop and return its result.

        Raises:
            QueueError: If the connection or the call fails, or takes longer than `seconds`.
        """

        async def run() -> ResultT:
            context = await self._context()
            return await asyncio.wait_for(call(context), seconds)

        future = asyncio.run_coroutine_threadsafe(run(), self._loop)
        try:
            return future.result(seconds + CONNECT_SECONDS + 1)
        except QueueError:
            raise
        except nats.js.errors.ServiceUnavailableError as error:
            raise QueueUnavailable(f"The queue is not ready: {describe(error)}.") from error
        except (nats.js.errors.APIError, nats.js.errors.NoStreamResponseError) as error:
            raise QueueRejected(f"The queue rejected the request: {describe(error)}.") from error
        except CALL_ERRORS as error:
            future.cancel()
            message = f"The queue server does not respond: {describe(error)}."
            raise QueueUnavailable(message) from error

    def close(self) -> None:
        """Close the connection and end the thread."""
        asyncio.run_coroutine_threadsafe(self._disconnect(), self._loop).result(CALL_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CONNECT_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    async def _context(self) -> JetStreamContext:
        async with self._connecting:
            if self._client is None or self._client.is_closed:
                self._client = await self._connect()
        return self.client.jetstream(timeout=CALL_SECONDS)

    async def _disconnect(self) -> None:
        try:
            if self._client is not None:
                await asyncio.wait_for(self._client.close(), CONNECT_SECONDS / 2)
        except CALL_ERRORS as error:
            logger.debug("the connection to the queue did not close: %s", error)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
