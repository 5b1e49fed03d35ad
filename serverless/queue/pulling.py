"""Fetches messages from a pull consumer.

The client's `PullSubscription.fetch` is not used: it waits for a complete batch or the timeout,
and it reports a deleted consumer as a timeout. `Puller.fetch` returns the available messages, and
raises if the consumer no longer exists. If a request is lost with its server, a wait is repeated.
"""

import json
import time
from typing import Final

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from serverless.queue.errors import QueueRejected, QueueUnavailable

RESPONSE_SECONDS: Final = 2.0
"""Time in seconds, after the wait, in which the server responds that no message is available."""

AVAILABLE_SECONDS: Final = 0.05
"""Time in seconds to wait for messages that the server has reported as available."""

TERMINATE: Final = b"+TERM"


class Puller:
    """A client that fetches messages from a durable consumer, with one fetch at a time."""

    def __init__(self, client: Client, stream: str, consumer: str) -> None:
        """Prepare the requests; `client` is connected, and nothing is sent before `fetch`."""
        self.client = client
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._inbox = client.new_inbox()
        self._subscription: Subscription | None = None
        self._requests = 0

    async def fetch(self, batch: int, wait_seconds: float) -> list[Msg]:
        """Return up to `batch` available messages, or wait for the first message.

        Args:
            batch: Maximum number of messages.
            wait_seconds: Maximum time to wait in seconds, at least `AVAILABLE_SECONDS`.

        Raises:
            QueueUnavailable: If the connection is lost.
            QueueRejected: If the server rejects the request or the consumer does not exist.
        """
        if not self.client.is_connected:
            raise QueueUnavailable("The queue server is not connected.")
        if self._subscription is None:
            self._subscription = await self.client.subscribe(f"{self._inbox}.*")
        first = await self._request(self._subscription, 1, wait_seconds)
        if not first or batch == 1:
            return first
        # The server waits if no message is pending, so request only the reported number.
        more = min(batch - len(first), first[-1].metadata.num_pending)
        if more <= 0:
            return first
        return first + await self._request(self._subscription, more, AVAILABLE_SECONDS)

    async def _request(self, subscription: Subscription, batch: int, seconds: float) -> list[Msg]:
        """Send one request; return its messages, or messages of an earlier request."""
        self._requests += 1
        reply = f"{self._inbox}.{self._requests}"
        request = {"batch": batch, "expires": int(seconds * 1e9)}
        await self.client.publish(self._subject, json.dumps(request).encode(), reply)
        until = time.monotonic() + seconds + RESPONSE_SECONDS
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
    """Raise an error unless the status means that no message is available."""
    description = (message.headers or {}).get("Description", "")
    if status in {"404", "408", "100"}:
        return
    if status == "503" or "Deleted" in description:
        raise QueueRejected("The consumer does not exist in the queue.")
    if status == "409" and "Shutdown" in description:
        raise QueueUnavailable("The queue server is shutting down.")
    raise QueueRejected(f"The queue server responded with status {status}: {description}.")
