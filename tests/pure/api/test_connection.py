"""Whether the client of a request still waits."""

import socket
from collections.abc import Iterator

import pytest
from django.test import RequestFactory
from rest_framework.request import Request

from gpuplatform.api.connection import SOCKET_KEY, has_disconnected
from gpuplatform.dev.embedded.ports import LOOPBACK


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The two ends of a TCP connection: of the client and of the server."""
    with (
        socket.create_server((LOOPBACK, 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0] as accepted,
    ):
        yield client, accepted


def request_over(connection: socket.socket | None) -> Request:
    request = RequestFactory().get("/")
    if connection is not None:
        request.META[SOCKET_KEY] = connection
    return Request(request)


def test_waiting_client_is_connected(ends: tuple[socket.socket, socket.socket]) -> None:
    client, accepted = ends
    client.sendall(b"GET / HTTP/1.1")

    assert not has_disconnected(request_over(accepted))
    assert accepted.recv(3) == b"GET"


def test_client_that_closed_is_disconnected(ends: tuple[socket.socket, socket.socket]) -> None:
    client, accepted = ends
    client.close()

    assert has_disconnected(request_over(accepted))


def test_server_that_stopped_reading_has_connected_client(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    _, accepted = ends
    accepted.shutdown(socket.SHUT_RD)

    assert not has_disconnected(request_over(accepted))


def test_unknown_connection_counts_as_connected() -> None:
    one, other = socket.socketpair()
    with one:
        other.close()

        assert not has_disconnected(request_over(None))
        assert not has_disconnected(request_over(one))
