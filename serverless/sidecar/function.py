"""The client of the function, for health checks and calls.

Each call opens a new connection, because a function can close an idle connection at any time.
"""

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import Final

import aiohttp
from multidict import CIMultiDictProxy
from yarl import URL

from serverless.queue.messages import MAX_HEADER_BYTES, MAX_RESULT_BYTES, InvocationMessage
from serverless.sidecar.settings import Settings

logger = logging.getLogger(__name__)

MAX_COUNTED_BYTES: Final = 256 * 1024 * 1024
"""Maximum number of bytes that are read from a response body."""

HEALTH_SECONDS: Final = 2.0
HEALTHY_INTERVAL_SECONDS: Final = 2.0
UNHEALTHY_INTERVAL_SECONDS: Final = 0.1
MAX_UNHEALTHY_INTERVAL_SECONDS: Final = 1.0
"""Intervals between health checks in seconds."""

_MAX_CONTENT_TYPE: Final = 127
_MAX_DESCRIPTION: Final = 200
_HOP_BY_HOP: Final = frozenset(
    {
        *("connection", "content-length", "content-type", "keep-alive", "proxy-authenticate"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    }
)


class FunctionError(Exception):
    """The call failed, or the response is not valid. `str()` is a sentence."""


class FunctionTimeout(Exception):
    """The function exceeded the timeout of the invocation."""


@dataclass(frozen=True, slots=True)
class FunctionResponse:
    """The response of the function to one invocation, with fields of `EndReport`."""

    status_code: int
    content_type: str
    headers: dict[str, str]
    body: bytes
    """The first `MAX_RESULT_BYTES` of the body."""
    size: int
    """Number of bytes of the complete body, up to `MAX_COUNTED_BYTES`."""
    truncated: bool
    """Whether `body` is shorter than the complete body."""


class Function:
    """The function on its Unix socket or TCP port; `watch` updates `healthy`."""

    def __init__(self, settings: Settings) -> None:
        """Prepare the client in a running event loop. Nothing is sent before `watch`."""
        port = settings.framework_port
        address = f"http://127.0.0.1:{port}" if port else "http://127.0.0.1"
        # The path and the query are sent unchanged.
        self._method = settings.invoke_method
        self._invoke_url = URL(address + settings.invoke_path, encoded=True)
        self._health_url = URL(address + settings.health_path, encoded=True)
        self._session = aiohttp.ClientSession(
            connector=_connector(settings),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self.healthy = asyncio.Event()
        self._call_failed = asyncio.Event()

    async def watch(self) -> None:
        """Check the health of the function until cancelled, more often while it is unhealthy."""
        delay = UNHEALTHY_INTERVAL_SECONDS
        while True:
            self._call_failed.clear()
            if await self._is_healthy():
                if not self.healthy.is_set():
                    logger.info("the function is healthy")
                self.healthy.set()
                delay = UNHEALTHY_INTERVAL_SECONDS
                await self._wait(HEALTHY_INTERVAL_SECONDS)
            else:
                if self.healthy.is_set():
                    logger.warning("the function became unhealthy")
                self.healthy.clear()
                await asyncio.sleep(delay)
                delay = min(delay * 1.5, MAX_UNHEALTHY_INTERVAL_SECONDS)

    async def invoke(self, invocation: InvocationMessage, attempt: int) -> FunctionResponse:
        """Send an invocation to the function and return the complete response.

        Raises:
            FunctionTimeout: If the function does not respond within the timeout.
            FunctionError: If the call fails or the response is not valid.
        """
        try:
            async with asyncio.timeout(invocation.timeout_seconds):
                return await self._send(invocation, attempt)
        except TimeoutError as error:
            raise FunctionTimeout from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self._call_failed.set()
            raise FunctionError(f"The call of the function failed: {_describe(error)}.") from error

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def _is_healthy(self) -> bool:
        try:
            async with (
                asyncio.timeout(HEALTH_SECONDS),
                self._session.get(self._health_url, allow_redirects=False) as response,
            ):
                return response.status == 200
        except (aiohttp.ClientError, OSError, ValueError):
            return False

    async def _wait(self, seconds: float) -> None:
        """Wait for `seconds`, or until a call fails."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._call_failed.wait(), seconds)

    async def _send(self, invocation: InvocationMessage, attempt: int) -> FunctionResponse:
        headers = {
            **invocation.headers,
            "Content-Type": invocation.content_type,
            "X-Invocation-ID": invocation.invocation_id,
            "X-Invocation-Attempt": str(attempt),
            "X-Invocation-Timeout-Seconds": str(invocation.timeout_seconds),
        }
        async with self._session.request(
            self._method,
            self._invoke_url,
            data=invocation.payload,
            headers=headers,
            allow_redirects=False,
        ) as response:
            if not 100 <= response.status <= 599:
                raise FunctionError(f"The function responded with status {response.status}.")
            body, size = await _read(response)
            return FunctionResponse(
                status_code=response.status,
                content_type=_text(response.headers.get("Content-Type", ""))[:_MAX_CONTENT_TYPE],
                headers=_stored_headers(response.headers),
                body=body,
                size=size,
                truncated=size > len(body),
            )


def _connector(settings: Settings) -> aiohttp.BaseConnector:
    if settings.framework_port:
        return aiohttp.TCPConnector(limit=0, force_close=True)
    return aiohttp.UnixConnector(settings.socket_path, limit=0, force_close=True)


async def _read(response: aiohttp.ClientResponse) -> tuple[bytes, int]:
    """Return the first `MAX_RESULT_BYTES` of the body, and the size of the complete body."""
    stored, size = bytearray(), 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if len(stored) < MAX_RESULT_BYTES:
            stored += chunk[: MAX_RESULT_BYTES - len(stored)]
        if size > MAX_COUNTED_BYTES:
            response.close()
            break
    return bytes(stored), size


def _stored_headers(headers: CIMultiDictProxy[str]) -> dict[str, str]:
    """Return the headers of a response that are stored: at most `MAX_HEADER_BYTES` in total."""
    stored: dict[str, str] = {}
    free = MAX_HEADER_BYTES
    for name in dict.fromkeys(map(str.lower, headers)):
        if name in _HOP_BY_HOP:
            continue
        text = _text(", ".join(headers.getall(name)))
        if len(name) + len(text) <= free:
            stored[_text(name)] = text
            free -= len(name) + len(text)
    return stored


def _text(text: str) -> str:
    """Return a header with each lone surrogate and unprintable character replaced."""
    valid = text.encode("utf-8", "replace").decode()
    return "".join(character if character.isprintable() else " " for character in valid)


def _describe(error: Exception) -> str:
    """Return the message of an error on one line, without the details that the client appends."""
    text = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
    line = " ".join(text.partition(": <")[0].split())
    return line[:_MAX_DESCRIPTION].rstrip(".") or type(error).__name__
