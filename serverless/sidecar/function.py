"""The client of the function: health checks and calls.

Each call opens a new connection: a function may close an idle connection just when a call uses it.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import aiohttp
from multidict import CIMultiDictProxy

from serverless.queue.messages import MAX_HEADER_BYTES, MAX_RESULT_BYTES, InvocationMessage
from serverless.sidecar.settings import FunctionAddress

logger = logging.getLogger(__name__)

MAX_COUNTED_BYTES: Final = 256 * 1024 * 1024
"""Maximum number of bytes that are read of an answer."""

HEALTH_SECONDS: Final = 2.0
HEALTHY_INTERVAL_SECONDS: Final = 2.0
UNHEALTHY_INTERVAL_SECONDS: Final = 0.1
MAX_UNHEALTHY_INTERVAL_SECONDS: Final = 1.0
"""Intervals of health checks."""

_MAX_CONTENT_TYPE: Final = 127
_MAX_DESCRIPTION: Final = 200
_HOP_BY_HOP: Final = frozenset(
    {
        *("connection", "content-length", "content-type", "keep-alive", "proxy-authenticate"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    }
)


class FunctionError(Exception):
    """The function could not be called, or closed the connection; `str()` is a sentence."""


class FunctionTimeout(Exception):
    """The function exceeded the timeout of the invocation."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The function's answer."""

    status: int
    content_type: str
    body: bytes
    """Its first part."""
    size: int
    """Number of bytes of the whole body, up to `MAX_COUNTED_BYTES`."""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_truncated(self) -> bool:
        """Whether `body` is only the first part."""
        return self.size > len(self.body)


class Function:
    """The function at one address; `watch` keeps `healthy` up to date."""

    def __init__(self, address: FunctionAddress) -> None:
        """Nothing is sent before `watch` runs. Create it inside of a running event loop."""
        self._address = address
        connector = (
            aiohttp.UnixConnector(address.socket_path, limit=0, force_close=True)
            if address.socket_path
            else aiohttp.TCPConnector(limit=0, force_close=True)
        )
        self._session = aiohttp.ClientSession(
            f"http://127.0.0.1:{address.port or 80}",
            connector=connector,
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self.healthy = asyncio.Event()
        self._call_failed = asyncio.Event()

    async def watch(self) -> None:
        """Check its health until cancelled: frequently while it is unhealthy, then rarely."""
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
                    logger.warning("the function is not healthy any more")
                self.healthy.clear()
                await asyncio.sleep(delay)
                delay = min(delay * 1.5, MAX_UNHEALTHY_INTERVAL_SECONDS)

    async def invoke(self, invocation: InvocationMessage, attempt: int) -> Answer:
        """Post an invocation and return the answer.

        Raises:
            FunctionTimeout: the function did not answer within the timeout.
            FunctionError: the call failed, or the answer is not valid.
        """
        try:
            async with asyncio.timeout(invocation.timeout_seconds):
                return await self._post(invocation, attempt)
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
                self._session.get(self._address.health_path, allow_redirects=False) as response,
            ):
                return response.status == 200
        except (aiohttp.ClientError, OSError, ValueError):
            return False

    async def _wait(self, seconds: float) -> None:
        """Wait, or return as soon as a call fails."""
        try:
            await asyncio.wait_for(self._call_failed.wait(), seconds)
        except TimeoutError:
            return

    async def _post(self, invocation: InvocationMessage, attempt: int) -> Answer:
        headers = {
            **invocation.headers,
            "Content-Type": invocation.content_type,
            "X-Invocation-ID": invocation.invocation_id,
            "X-Invocation-Attempt": str(attempt),
            "X-Invocation-Timeout-Seconds": str(invocation.timeout_seconds),
        }
        async with self._session.post(
            self._address.invoke_path,
            data=invocation.payload,
            headers=headers,
            allow_redirects=False,
        ) as response:
            if not 100 <= response.status <= 599:
                raise FunctionError(f"The function answered with status {response.status}.")
            body, size = await _read(response)
            return Answer(
                status=response.status,
                content_type=_text(response.headers.get("Content-Type", ""))[:_MAX_CONTENT_TYPE],
                body=body,
                size=size,
                headers=_stored_headers(response.headers),
            )


async def _read(response: aiohttp.ClientResponse) -> tuple[bytes, int]:
    """Return the first part of the body, and the size of the whole body."""
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
    """Return the headers of an answer that are stored, within the limit of their size."""
    stored: dict[str, str] = {}
    room = MAX_HEADER_BYTES
    for name in dict.fromkeys(map(str.lower, headers)):
        if name in _HOP_BY_HOP:
            continue
        text = _text(", ".join(headers.getall(name)))
        if len(name) + len(text) <= room:
            stored[_text(name)] = text
            room -= len(name) + len(text)
    return stored


def _text(text: str) -> str:
    """Return a header as printable text without lone surrogates."""
    whole = text.encode("utf-8", "replace").decode()
    if whole.isprintable():
        return whole
    return "".join(one if one.isprintable() else " " for one in whole)


def _describe(error: Exception) -> str:
    """Return an error on one line, without the client's details of the request."""
    text = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
    line = " ".join(text.partition(": <")[0].split())
    return line[:_MAX_DESCRIPTION].rstrip(".") or type(error).__name__
