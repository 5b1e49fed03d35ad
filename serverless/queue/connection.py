"""The connection to the queue server, shared by platform processes and the sidecar.

This module does not use Django, which is not in the image of the sidecar.
"""

import asyncio
import logging
from typing import Final

import nats.errors
import nats.js.errors
from nats.aio.client import Client

from gpuplatform.nats.tokens import Credentials
from serverless.queue.errors import QueueUnavailable

logger = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 3.0
CALL_SECONDS: Final = 5.0
"""Timeout in seconds of one request to the queue server."""

CALL_ERRORS: Final = (nats.errors.Error, OSError)
"""Exceptions of the client for rejected requests and for missing responses."""

_BUFFER_BYTES: Final = 64 * 1024 * 1024
"""Larger than the largest batch that is published between two flushes."""


async def connect(
    url: str, credentials: Credentials, *, name: str, inbox_prefix: str = "_INBOX"
) -> Client:
    """Return a connected client, which reconnects automatically when the connection is lost.

    Args:
        url: Address of the server.
        credentials: Credentials of a platform process, or of the workers of one function.
        name: Name of the connection in the server's monitoring.
        inbox_prefix: Prefix of the subjects to which the server sends replies.

    Raises:
        QueueUnavailable: If the server does not accept the connection in time.
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
        message = f"The queue server cannot be reached: {describe(error)}."
        raise QueueUnavailable(message) from error
    except asyncio.CancelledError:
        await client.close()
        raise
    return client


def describe(error: BaseException) -> str:
    """Return the message of an error of the client, without a period at the end."""
    if isinstance(error, TimeoutError):
        return "no response in time"  # The client's timeouts have no message.
    text = (isinstance(error, nats.js.errors.APIError) and error.description) or str(error)
    return text.rstrip(".") or type(error).__name__


async def _log(error: Exception) -> None:
    logger.info("connection to the queue: %s", describe(error))
