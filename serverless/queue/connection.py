"""The connection to the queue server; platform processes and the sidecar use the same one.

Without Django: the sidecar's image does not have it.
"""

import asyncio
import logging
from typing import Final

import nats.errors
from nats.aio.client import Client

from gpuplatform.nats.tokens import Credentials
from serverless.queue.errors import QueueUnavailable

logger = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 3.0
CALL_SECONDS: Final = 5.0
"""Deadline of one request to the queue server."""

CALL_ERRORS: Final = (nats.errors.Error, OSError)
"""What the client raises when the server refuses a request, or does not answer in time."""

_BUFFER_BYTES: Final = 64 * 1024 * 1024
"""More than the largest batch that is published before the next flush."""


async def connect(
    url: str, credentials: Credentials, *, name: str, inbox_prefix: str = "_INBOX"
) -> Client:
    """Return a connected client; it reconnects automatically when the connection is lost.

    Args:
        url: address of the server.
        credentials: of a platform process, or of the workers of one function.
        name: what the server's monitoring calls the connection.
        inbox_prefix: the first part of the subjects on which replies arrive.

    Raises:
        QueueUnavailable: this attempt failed.
    """
    client = Client()
    connecting = client.connect(
        url,
        name=name,
        inbox_prefix=inbox_prefix.encode(),
        connect_timeout=CONNECT_SECONDS,  # type: ignore[arg-type]  # the client accepts a float
        reconnect_time_wait=0.2,  # type: ignore[arg-type]  # as above
        max_reconnect_attempts=-1,
        ping_interval=10,
        pending_size=_BUFFER_BYTES,
        error_cb=_log,
        **credentials.callbacks(),  # type: ignore[arg-type]  # two callbacks, by name
    )
    try:
        await asyncio.wait_for(connecting, CONNECT_SECONDS)
    except CALL_ERRORS as error:
        await client.close()
        why = describe(error)
        raise QueueUnavailable(f"The queue server cannot be reached: {why}.") from error
    except asyncio.CancelledError:
        await client.close()
        raise
    return client


def describe(error: BaseException) -> str:
    """Return an error of the client as text; its timeouts have none."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error).rstrip(".") or type(error).__name__


async def _log(error: Exception) -> None:
    logger.info("connection to the queue: %s", describe(error))
