"""The function beside the sidecar: whether it answers, and what it answers to an invocation.

Each call has a connection of its own: a function that ends idle connections by itself would
otherwise now and then end one under a call.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import aiohttp
from multidict import CIMultiDictProxy

from serverless.queue.messages import (
    MAX_HEADER_BYTES,
    MAX_RESULT_BYTES,
    InvocationMessage,
)
from serverless.sidecar.settings import FunctionAddress

logger = logging.getLogger(__name__)

MAX_COUNTED_BYTES: Final = 256 * 1024 * 1024
"""Of an answer that never ends nothing is read beyond this."""

HEALTH_SECONDS: Final = 2.0
HEALTHY_PAUSE_SECONDS: Final = 2.0
UNHEALTHY_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 1.0

_MAX_CONTENT_TYPE: Final = 127
_MAX_WORDS: Final = 200
_HOP_BY_HOP: Final = frozenset(
    {
        *("connection", "content-length", "content-type", "keep-alive", "proxy-authenticate"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    }
)


class FunctionBroken(Exception):
    """It could not be called, or broke off; `str()` is a sentence."""


class FunctionTimeout(Exception):
    """It took longer than it may."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the function answered."""

    status: int
    content_type: str
    body: bytes
    """What is kept of it."""
    size: int
    """Of all of it, as far as it was read."""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_truncated(self) -> bool:
        """Whether there was more than is kept."""
        return self.size > len(self.body)


class Function:
    """The function at one address; `watch` keeps `healthy` up to date."""

    def __init__(self, address: FunctionAddress) -> None:
        """Nothing is sent before `watch` runs. Made inside of a running loop."""
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
        self._doubted = asyncio.Event()

    async def watch(self) -> None:
        """Ask for its health until cancelled: soon while it does not answer, else now and then."""
        pause = UNHEALTHY_PAUSE_SECONDS
        while True:
            self._doubted.clear()
            if await self._is_healthy():
                if not self.healthy.is_set():
                    logger.info("the function answers")
                self.healthy.set()
                pause = UNHEALTHY_PAUSE_SECONDS
                await self._pause(HEALTHY_PAUSE_SECONDS)
            else:
                if self.healthy.is_set():
                    logger.warning("the function does not answer any more")
                self.healthy.clear()
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)

    async def invoke(self, invocation: InvocationMessage, attempt: int) -> Answer:
        """Post an invocation and return the answer.

        Raises:
            FunctionTimeout: it took longer than the invocation may.
            FunctionBroken: there is no answer that could be understood.
        """
        try:
            async with asyncio.timeout(invocation.timeout_seconds):
                return await self._post(invocation, attempt)
        except TimeoutError as error:
            raise FunctionTimeout from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self._doubted.set()
            raise FunctionBroken(f"The function broke off: {_words(error)}.") from error

    async def close(self) -> None:
        """End all connections."""
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

    async def _pause(self, seconds: float) -> None:
        """Wait, or return at once when a call failed."""
        try:
            await asyncio.wait_for(self._doubted.wait(), seconds)
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
                raise FunctionBroken(f"The function answered with status {response.status}.")
            body, size = await _read(response)
            return Answer(
                status=response.status,
                content_type=_text(response.headers.get("Content-Type", ""))[:_MAX_CONTENT_TYPE],
                body=body,
                size=size,
                headers=_kept_headers(response.headers),
            )


async def _read(response: aiohttp.ClientResponse) -> tuple[bytes, int]:
    """Return the beginning of the body, and its size. The rest is counted and forgotten."""
    kept, size = bytearray(), 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if len(kept) < MAX_RESULT_BYTES:
            kept += chunk[: MAX_RESULT_BYTES - len(kept)]
        if size > MAX_COUNTED_BYTES:
            response.close()
            break
    return bytes(kept), size


def _kept_headers(headers: CIMultiDictProxy[str]) -> dict[str, str]:
    """Return what a result keeps of an answer's headers; what does not fit is left out."""
    kept: dict[str, str] = {}
    room = MAX_HEADER_BYTES
    for name in dict.fromkeys(map(str.lower, headers)):
        if name in _HOP_BY_HOP:
            continue
        text = _text(", ".join(headers.getall(name)))
        if len(name) + len(text) <= room:
            kept[_text(name)] = text
            room -= len(name) + len(text)
    return kept


def _text(text: str) -> str:
    """Return a header as text that can be stored: no halves of characters, nothing unseen."""
    whole = text.encode("utf-8", "replace").decode()
    if whole.isprintable():
        return whole
    return "".join(one if one.isprintable() else " " for one in whole)


def _words(error: Exception) -> str:
    """Return what went wrong on one line, without the client's details of the request."""
    said = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
    line = " ".join(said.partition(": <")[0].split())
    return line[:_MAX_WORDS].rstrip(".") or type(error).__name__
