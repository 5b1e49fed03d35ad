"""Fetches messages from a pull consumer.

The client's own `fetch` waits until it has a whole batch; this one returns what is available. A
request that is lost with its server costs one wait.
"""

import json
import time
from typing import Final

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from serverless.queue.errors import QueueMissing, QueueRefused, QueueUnavailable

ANSWER_SECONDS: Final = 2.0
"""Time that the server may need, after the wait, to answer without a message."""

AVAILABLE_SECONDS: Final = 0.05
"""Wait for messages that the server has reported as available."""

TERMINATE: Final = b"+TERM"


class Puller:
    """Fetches from one durable consumer over one connection, one fetch at a time."""

    def __init__(self, client: Client, stream: str, consumer: str) -> None:
        """`client` is connected; nothing is sent before the first fetch."""
        self.client = client
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._inbox = client.new_inbox()
        self._subscription: Subscription | None = None
        self._requests = 0

    async def fetch(self, batch: int, wait_seconds: float) -> list[Msg]:
        """Return up to `batch` messages: those that are available, or the first in time.

        `wait_seconds` is at least `AVAILABLE_SECONDS`.

        Raises:
            QueueMissing: the consumer does not exist.
            QueueUnavailable: the connection is lost.
            QueueRefused: the server refused the request.
        """
        if not self.client.is_connected:
            raise QueueUnavailable("The queue server is not connected.")
        if self._subscription is None:
            self._subscription = await self.client.subscribe(f"{self._inbox}.*")
        first = await self._request(1, wait_seconds)
        if not first or batch == 1:
            return first
        # The server waits if none is pending, so ask only for what it reports as pending.
        more = min(batch - len(first), first[-1].metadata.num_pending)
        return first + (await self._request(more, AVAILABLE_SECONDS) if more > 0 else [])

    async def _request(self, batch: int, seconds: float) -> list[Msg]:
        """Send one request and read until it is answered, or messages of an earlier one arrive."""
        subscription = self._subscription
        assert subscription is not None  # noqa: S101 - `fetch` created it
        self._requests += 1
        reply = f"{self._inbox}.{self._requests}"
        request = {"batch": batch, "expires": int(seconds * 1e9)}
        await self.client.publish(self._subject, json.dumps(request).encode(), reply)
        until = time.monotonic() + seconds + ANSWER_SECONDS
        found: list[Msg] = []
        while len(found) < batch:
            try:
                message = await subscription.next_msg(max(until - time.monotonic(), 0.001))
            except TimeoutError:
                break
            except nats.errors.Error as error:
                raise QueueUnavailable(f"The connection to the queue is lost: {error}.") from error
            status = message.headers.get("Status") if message.headers else None
            if status is None or message.reply:
                found.append(message)
            elif message.subject == reply:
                _check(status, message)
                break
        return found


def _check(status: str, message: Msg) -> None:
    """Raise an error, unless the status means that no message is available."""
    why = (message.headers or {}).get("Description", "")
    if status in {"404", "408", "100"}:
        return
    if status == "503" or "Deleted" in why:
        raise QueueMissing("The consumer does not exist in the queue.")
    if status == "409" and "Shutdown" in why:
        raise QueueUnavailable("The queue server is shutting down.")
    raise QueueRefused(f"The queue server answered with status {status}: {why}.")
