"""Requests to the API server as bytes, with time limits, over the official client's connections.

The official client provides kubeconfig, rotating tokens, TLS and proxies. Its models and its
retries are not used: `client` decodes a response once, and the drivers decide about retries.
Called by `client` and `watch` only; it knows no kinds and maps no responses.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from typing_extensions import override
from urllib3 import BaseHTTPResponse, HTTPResponse, Timeout
from urllib3 import exceptions as http
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from gpuplatform.kube import interrupt
from gpuplatform.kube.deadline import capped, deadline
from gpuplatform.kube.responses import no_answer

CONNECT_SECONDS = 3.0
READ_SECONDS = 10.0
"""Maximum wait of a call for the next byte."""
CALL_SECONDS = 30.0
"""Maximum duration of a call, even while bytes arrive."""
POOL_SIZE = 32
"""Number of connections kept: at least the number of threads that call concurrently."""

TOKEN_SECONDS = 10.0
"""Time for which a token is cached; after a rotation the old one stays valid for longer."""

_CHUNK = 64 * 1024


class _Connection(HTTPConnection):
    @override
    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as in urllib3
        interrupt.attach(self.sock)
        return super().getresponse()


class _SecureConnection(HTTPSConnection):
    @override
    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as in urllib3
        interrupt.attach(self.sock)
        return super().getresponse()


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


@dataclass(frozen=True, slots=True)
class Request:
    """One request; empty values of `query` are omitted."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = ""

    @property
    def target(self) -> str:
        """The path with its query."""
        query = urlencode({key: value for key, value in self.query.items() if value})
        return f"{self.path}?{query}" if query else self.path


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete response with any status."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    """The connections to one API server. Safe to share between threads, never across a fork."""

    def __init__(self, configuration: Configuration) -> None:
        configuration.retries = False  # No retries, no redirects.
        configuration.connection_pool_maxsize = POOL_SIZE
        self._configuration = configuration
        self._host: str = configuration.host  # The property reads the environment each time.
        self._bearer, self._bearer_until = "", 0.0
        self._connections = RESTClientObject(configuration).pool_manager
        self._connections.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}

    def close(self) -> None:
        """Close every idle connection."""
        self._connections.clear()

    def exchange(self, request: Request) -> Answer:
        """Send `request` and read the complete response.

        Raises:
            ClusterUnavailable: The response did not arrive completely in time.
        """
        with deadline(CALL_SECONDS):
            try:
                response = self.open(request, read_seconds=READ_SECONDS)
                return Answer(response.status, response.headers, read_all(response))
            finally:
                interrupt.detach()

    def open(self, request: Request, *, read_seconds: float) -> BaseHTTPResponse:
        """Send `request` and return when the response begins; the caller reads the body.

        Every wait for the next byte ends after `read_seconds`, also within the body.

        Raises:
            ClusterUnavailable: The response did not begin in time.
        """
        timeout = Timeout(connect=capped(CONNECT_SECONDS), read=capped(read_seconds))
        try:
            return self._connections.request(
                request.method,
                self._host + request.target,
                body=request.body,
                headers=self._headers(request),
                timeout=timeout,
                preload_content=False,
            )
        except (http.HTTPError, OSError, ValueError) as fault:
            raise no_answer(fault) from fault

    def _headers(self, request: Request) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "gpu-platform"}
        if request.content_type:
            headers["Content-Type"] = request.content_type
        if bearer := self._authorization():
            headers["Authorization"] = bearer
        return headers

    def _authorization(self) -> str:
        """Return the Authorization header; the client's hook reads a rotated token file again."""
        if time.monotonic() >= self._bearer_until:
            token = self._configuration.auth_settings().get("BearerToken")
            self._bearer = token["value"] or "" if token is not None else ""
            self._bearer_until = time.monotonic() + TOKEN_SECONDS
        return self._bearer


def read_some(response: BaseHTTPResponse) -> bytes:
    """Return the bytes that have arrived, at least one; no bytes mean the end of the body.

    Raises:
        ClusterUnavailable: The connection was lost, timed out or ended early.
    """
    try:
        return response.read1(_CHUNK)
    except (http.HTTPError, OSError, ValueError) as fault:
        response.close()
        raise no_answer(fault) from fault


def read_all(response: BaseHTTPResponse) -> bytes:
    """Return the whole body.

    Raises:
        ClusterUnavailable: As `read_some`, or the time limit was exceeded.
    """
    body = bytearray()
    while some := read_some(response):
        body += some
        try:
            capped(CALL_SECONDS)
        except BaseException:
            response.close()
            raise
    return bytes(body)
