"""Messages that a process of the platform is given from a consumer, and what it answers."""

import logging
from collections.abc import Sequence

from nats.aio.msg import Msg
from nats.js.client import JetStreamContext

from serverless.queue.connection import CALL_SECONDS, Connection
from serverless.queue.errors import QueueError
from serverless.queue.pulling import TERMINATE, Puller
from serverless.queue.values import Received

logger = logging.getLogger(__name__)


class Deliveries(Connection):
    """Fetches and answers; whatever is not answered in time is given out again."""

    def fetch(self, stream: str, consumer: str, batch: int, seconds: float) -> list[Received]:
        """Return messages for this process: what is there, or the first that comes in time.

        Raises:
            QueueError: the server is away, or there is no such consumer.
        """

        async def pull(_: JetStreamContext) -> list[Received]:
            puller = self._pullers.get((stream, consumer))
            if puller is None:
                puller = Puller(self._connected(), stream, consumer)
                self._pullers[(stream, consumer)] = puller
            return [_received(message) for message in await puller.fetch(batch, seconds)]

        return self._call(pull, seconds + CALL_SECONDS)

    def acknowledge(self, received: Sequence[Received]) -> None:
        """Tell the server that these are done. One that it does not hear of comes again."""
        self._answer(received, b"+ACK")

    def terminate(self, received: Sequence[Received], why: str) -> None:
        """Tell the server that nobody shall get these again."""
        self._answer(received, TERMINATE + b" " + why.encode())

    def postpone(self, received: Sequence[Received], seconds: float) -> None:
        """Have these again later."""
        self._answer(received, b'-NAK {"delay": %d}' % int(seconds * 1e9))

    def _answer(self, received: Sequence[Received], body: bytes) -> None:
        async def answer(_: JetStreamContext) -> None:
            for one in received:
                await self._connected().publish(one.raw.reply, body)
            await self._connected().flush(2)

        try:
            self._call(answer)
        except QueueError as error:
            logger.info(
                "the queue does not hear an acknowledgement, it will come again: %s", error
            )


def _received(message: Msg) -> Received:
    metadata = message.metadata
    return Received(
        subject=message.subject,
        body=message.data,
        sequence=metadata.sequence.stream,
        deliveries=metadata.num_delivered,
        raw=message,
    )
