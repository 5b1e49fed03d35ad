"""Sends webhooks to receivers, which are not trusted.

The client connects only to addresses that it has checked: it resolves the name once for each
attempt, rejects the attempt if one of the addresses is not allowed, and connects to the resolved
addresses. It does not follow redirects, does not use a proxy, does not read the body of the
response, and limits the time of the whole attempt. Source: OWASP, "Server-Side Request Forgery
Prevention Cheat Sheet".
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final

import aiohttp
from aiohttp.abc import ResolveResult
from typing_extensions import override
from yarl import URL

from gpuplatform import __version__, clock
from serverless.core.webhooks import Network, may_connect
from serverless.services.webhooks import Attempt
from serverless.webhook_phases import WebhookFailure

ATTEMPT_SECONDS: Final = 10.0
"""Maximum duration of an attempt in seconds, from the resolution to the status."""

_MAX_DETAILS: Final = 200
_THREADS: Final = 8
"""Number of threads for each concurrent attempt: a name that is not resolved within the attempt
blocks its thread for at most a few minutes, depending on the resolver of the system."""
_MAX_HEADER_BYTES: Final = 8190
_USER_AGENT: Final = f"gpu-platform/{__version__}"


@dataclass(frozen=True, slots=True)
class Request:
    """The request of one attempt."""

    url: str
    headers: dict[str, str]
    body: bytes


class ForbiddenAddress(OSError):
    """The host has an address to which webhooks may not be sent."""


class WebhookClient:
    """A client in a running event loop. Each attempt uses a new connection."""

    def __init__(self, allowed: Sequence[Network], *, most: int) -> None:
        """Prepare the client.

        Args:
            allowed: Networks to which webhooks may be sent in addition to public addresses.
            most: Maximum number of concurrent attempts.
        """
        self._allowed = allowed
        # A name server that does not respond blocks a thread for longer than the attempt. Further
        # names are resolved by other threads.
        threads = ThreadPoolExecutor(most * _THREADS)
        asyncio.get_running_loop().set_default_executor(threads)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                resolver=_CheckedResolver(self._check),
                use_dns_cache=False,
                socket_factory=self._socket,
                limit=0,
                force_close=True,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=ATTEMPT_SECONDS),
            auto_decompress=False,
            max_line_size=_MAX_HEADER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
        )

    async def send(self, request: Request) -> Attempt:
        """Send a webhook once, and return the outcome."""
        started_at, began = clock.now(), time.monotonic()
        status, failure, details = await self._send(request)
        return Attempt(
            started_at=started_at,
            duration_seconds=time.monotonic() - began,
            status_code=status,
            failure=failure,
            message=details[:_MAX_DETAILS],
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def _send(self, request: Request) -> tuple[int | None, WebhookFailure | None, str]:
        try:
            async with self._session.post(
                URL(request.url, encoded=True),  # The path and the query are sent unchanged.
                data=request.body,
                headers={**request.headers, "User-Agent": _USER_AGENT},
                allow_redirects=False,
            ) as response:
                response.close()
                return response.status, _failure_of(response.status), ""
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return None, *_explain(error)

    def _check(self, address: str) -> None:
        """Check that the client may connect to an address.

        Raises:
            ForbiddenAddress: If it may not.
        """
        if not may_connect(ip_address(address.partition("%")[0]), self._allowed):
            raise ForbiddenAddress("The host has an address that is not public.")

    def _socket(self, target: Any) -> socket.socket:
        """Return the socket of a connection. All connections are made through this method."""
        family, kind, protocol, _, address = target
        self._check(address[0])
        return socket.socket(family, kind, protocol)


class _CheckedResolver(aiohttp.ThreadedResolver):
    """A resolver that rejects a name if one of its addresses is not allowed."""

    def __init__(self, check: Any) -> None:
        super().__init__()
        self._check = check

    @override
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await super().resolve(host, port, family)
        for one in found:
            self._check(one["host"])
        return found


def _failure_of(status: int) -> WebhookFailure | None:
    if 200 <= status <= 299:
        return None
    return WebhookFailure.REDIRECTED if 300 <= status <= 399 else WebhookFailure.BAD_STATUS


def _explain(error: Exception) -> tuple[WebhookFailure, str]:
    """Return the code and the details of a failed attempt."""
    cause = getattr(error, "os_error", error)
    for kind, failure in _FAILURES:
        if isinstance(cause, kind) or isinstance(error, kind):
            return failure, _details(cause)
    return WebhookFailure.INVALID_RESPONSE, _details(cause)


_FAILURES: Final[Sequence[tuple[type[Exception], WebhookFailure]]] = (
    (ForbiddenAddress, WebhookFailure.ADDRESS_FORBIDDEN),
    (TimeoutError, WebhookFailure.TIMED_OUT),
    (aiohttp.ClientConnectorDNSError, WebhookFailure.NAME_NOT_RESOLVED),
    (aiohttp.ClientSSLError, WebhookFailure.TLS_FAILED),
    (ssl.SSLError, WebhookFailure.TLS_FAILED),
    (aiohttp.ClientConnectionError, WebhookFailure.CONNECTION_FAILED),
    (OSError, WebhookFailure.CONNECTION_FAILED),
)
"""The code of each kind of error, the most specific first."""


def _details(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return "".join(character if character.isprintable() else " " for character in text)
