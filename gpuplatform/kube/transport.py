"""Sends requests to the API server with time limits. Only `client` and `watch` use it.

The official Kubernetes client provides kubeconfig, token rotation, TLS and proxies. Its models and
retries are not used: `client` decodes each response once, and the drivers decide on retries.
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
from gpuplatform.kube.responses import no_response

CONNECT_SECONDS = 3.0
READ_SECONDS = 10.0
"""Maximum time in seconds that a call waits for the next data."""
CALL_SECONDS = 30.0
"""Maximum duration of a call in seconds, even if data arrives."""
POOL_SIZE = 32
"""Maximum number of idle connections, which is at least the number of concurrent threads."""

TOKEN_SECONDS = 10.0
"""Time in seconds for which a token is cached. A rotated token remains valid for longer."""

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
    """A request. Empty values in `query` are omitted."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = ""

    @property
    def target(self) -> str:
        """The path with the query string."""
        query = urlencode({key: value for key, value in self.query.items() if value})
        return f"{self.path}?{query}" if query else self.path


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response with any HTTP status."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    """The connections to an API server. Threads may share them; forked processes must not."""

    def __init__(self, configuration: Configuration) -> None:
        configuration.retries = False  # Neither retries nor redirects.
        configuration.connection_pool_maxsize = POOL_SIZE
        self._configuration = configuration
        self._host: str = configuration.host  # The property reads the environment at each access.
        self._bearer, self._bearer_until = "", 0.0
        self._connections = RESTClientObject(configuration).pool_manager
        self._connections.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}

    def close(self) -> None:
        """Close the idle connections."""
        self._connections.clear()

    def exchange(self, request: Request) -> Response:
        """Send `request` and read the complete response.

        Raises:
            ClusterUnavailable: If the response is not complete in time.
        """
        with deadline(CALL_SECONDS):
            try:
                response = self.open(request, read_seconds=READ_SECONDS)
                return Response(response.status, response.headers, read_all(response))
            finally:
                interrupt.detach()

    def open(self, request: Request, *, read_seconds: float) -> BaseHTTPResponse:
        """Send `request` and return after the headers of the response. The caller reads the body.

        Each wait for data takes at most `read_seconds`, including in the body.

        Raises:
            ClusterUnavailable: If the response does not begin in time.
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
        except (http.HTTPError, OSError, ValueError) as error:
            raise no_response(error) from error

    def _headers(self, request: Request) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "gpu-platform"}
        if request.content_type:
            headers["Content-Type"] = request.content_type
        if bearer := self._authorization():
            headers["Authorization"] = bearer
        return headers

    def _authorization(self) -> str:
        """Return the value of the `Authorization` header. A rotated token is read again."""
        if time.monotonic() >= self._bearer_until:
            token = self._configuration.auth_settings().get("BearerToken")
            self._bearer = token["value"] or "" if token is not None else ""
            self._bearer_until = time.monotonic() + TOKEN_SECONDS
        return self._bearer


def read_some(response: BaseHTTPResponse) -> bytes:
    """Return the next available bytes of the body, or empty bytes at its end.

    Raises:
        ClusterUnavailable: If the connection is lost, times out or ends too early.
    """
    try:
        return response.read1(_CHUNK)
    except (http.HTTPError, OSError, ValueError) as error:
        response.close()
        raise no_response(error) from error


def read_all(response: BaseHTTPResponse) -> bytes:
    """Return the whole body.

    Raises:
        ClusterUnavailable: If the connection is lost, or if the deadline passes.
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
