"""One connection of a Django process to the queue: calls that return, over a loop in a thread."""

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js.client import JetStreamContext

from gpuplatform.nats.keys import KeyPair
from serverless.queue.credentials import platform_credentials
from serverless.queue.errors import QueueError, QueueMissing, QueueRefused, QueueUnavailable
from serverless.queue.pulling import Puller

logger = logging.getLogger(__name__)

CALL_SECONDS: Final = 5.0
CONNECT_SECONDS: Final = 2.0
AnswerT = TypeVar("AnswerT")


class Connection:
    """A connection that is made at the first call and comes back by itself."""

    def __init__(self, url: str, account: KeyPair) -> None:
        """Nothing is connected before the first call."""
        self._url = url
        self._account = account
        self._client: Client | None = None
        self._pullers: dict[tuple[str, str], Puller] = {}
        self._loop = asyncio.new_event_loop()
        self._connecting = asyncio.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name="queue", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the connection and end the thread."""

        async def disconnect() -> None:
            try:
                if self._client is not None:
                    await asyncio.wait_for(self._client.close(), CONNECT_SECONDS / 2)
            except (nats.errors.Error, OSError) as error:
                logger.debug("the connection to the queue did not close: %s", error)
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(disconnect(), self._loop).result(CALL_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CONNECT_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    def _connected(self) -> Client:
        if self._client is None or not self._client.is_connected:
            raise QueueUnavailable("The queue server is not connected.")
        return self._client

    def _call(
        self,
        call: Callable[[JetStreamContext], Awaitable[AnswerT]],
        seconds: float = CALL_SECONDS,
    ) -> AnswerT:
        """Make the call on the loop and wait for it."""

        async def run() -> AnswerT:
            js = await self._context()
            return await asyncio.wait_for(call(js), seconds)

        future = asyncio.run_coroutine_threadsafe(run(), self._loop)
        try:
            return future.result(seconds + CONNECT_SECONDS + 1)
        except QueueError:
            raise
        except (nats.js.errors.NotFoundError, nats.js.errors.NoStreamResponseError) as error:
            raise QueueMissing(f"The queue does not have it: {error}") from error
        except nats.js.errors.ServiceUnavailableError as error:
            raise QueueUnavailable(f"The queue is not ready: {error}") from error
        except nats.js.errors.APIError as error:
            raise QueueRefused(f"The queue refuses: {error.description}") from error
        except (nats.errors.Error, OSError) as error:
            future.cancel()
            why = str(error) or "no answer in time"
            raise QueueUnavailable(f"The queue server does not answer: {why}.") from error

    async def _context(self) -> JetStreamContext:
        """Return the connection's context, connecting if there is none."""
        async with self._connecting:
            if self._client is None or self._client.is_closed:
                self._client = await self._connect()
                self._pullers = {}
        return self._connected().jetstream(timeout=CALL_SECONDS)

    async def _connect(self) -> Client:
        client = Client()
        options: dict[str, Any] = {
            **platform_credentials(self._account).callbacks(),
            "name": f"gpu-platform {os.getpid()}",
            "connect_timeout": CONNECT_SECONDS,
            "reconnect_time_wait": 0.2,
            "ping_interval": 10,
            "pending_size": 64 * 1024 * 1024,
            "error_cb": _log,
        }
        try:
            # The first attempt decides; a connection that was there comes back by itself.
            await asyncio.wait_for(
                client.connect(self._url, **options, max_reconnect_attempts=-1), CONNECT_SECONDS
            )
        except (nats.errors.Error, OSError) as error:
            await client.close()
            why = str(error) or "no answer in time"
            raise QueueUnavailable(f"The queue server cannot be reached: {why}.") from error
        return client


async def _log(error: Exception) -> None:
    logger.info("the connection to the queue: %s", str(error) or type(error).__name__)
