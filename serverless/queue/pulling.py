"""Fetching from a pull consumer: what is there at once, or else the next one. The sidecar uses it.

The client's own `fetch` of many waits for all of them; this returns what there is. A pull that was
lost (a server that went away takes it along) costs the wait and nothing else.
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
"""What the server may take beyond a wait to say that there was nothing."""

AT_ONCE_SECONDS: Final = 0.05
"""What messages may take that the server said are there."""

TERMINATE: Final = b"+TERM"


class Puller:
    """Pulls from one durable consumer over one connection, one fetch at a time."""

    def __init__(self, client: Client, stream: str, consumer: str) -> None:
        """`client` is connected; nothing is sent before the first fetch."""
        self._client = client
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._inbox = client.new_inbox()
        self._subscription: Subscription | None = None
        self._number = 0

    async def fetch(self, batch: int, wait_seconds: float) -> list[Msg]:
        """Return up to `batch` messages: those that are there, or the first that comes in time.

        `wait_seconds` is at least `AT_ONCE_SECONDS`.

        Raises:
            QueueMissing: there is no such consumer.
            QueueUnavailable: the connection is down.
            QueueRefused: the server does not give any, for another reason.
        """
        if not self._client.is_connected:
            raise QueueUnavailable("The queue server is not connected.")
        if self._subscription is None:
            self._subscription = await self._client.subscribe(f"{self._inbox}.*")
        first = await self._request(1, wait_seconds)
        if not first or batch == 1:
            return first
        # So many more are there; where they are all in work, the server would wait with none.
        more = min(batch - len(first), first[-1].metadata.num_pending)
        return first + (await self._request(more, AT_ONCE_SECONDS) if more > 0 else [])

    async def close(self) -> None:
        """Stop listening; what was delivered and not acknowledged is delivered again."""
        if self._subscription is not None and not self._client.is_closed:
            await self._subscription.unsubscribe()
        self._subscription = None

    async def _request(self, batch: int, seconds: float) -> list[Msg]:
        """Send one pull and read until it is answered; messages of an earlier one count too."""
        subscription = self._subscription
        assert subscription is not None  # noqa: S101 - `fetch` made it
        self._number += 1
        reply = f"{self._inbox}.{self._number}"
        asked = {"batch": batch, "expires": int(seconds * 1e9)}
        await self._client.publish(self._subject, json.dumps(asked).encode(), reply)
        until = time.monotonic() + seconds + ANSWER_SECONDS
        found: list[Msg] = []
        while len(found) < batch:
            try:
                message = await subscription.next_msg(max(until - time.monotonic(), 0.001))
            except TimeoutError:
                break
            except nats.errors.Error as error:
                raise QueueUnavailable(f"The queue server is gone: {error}") from error
            status = message.headers.get("Status") if message.headers else None
            if status is None or message.reply:
                found.append(message)
            elif message.subject == reply:
                _check(status, message)
                break
        return found


def _check(status: str, message: Msg) -> None:
    """Accept the statuses that mean that there is no more for now."""
    why = (message.headers or {}).get("Description", "")
    if status in {"404", "408", "100"}:
        return
    if status == "503" or "Deleted" in why:
        raise QueueMissing("The queue has no such consumer.")
    if status == "409" and "Shutdown" in why:
        raise QueueUnavailable("The queue server is shutting down.")
    raise QueueRefused(f"The queue server says {status}: {why}")
