import socket
from collections.abc import Iterator

import pytest

from gpuplatform.dev.embedded.errors import StartError
from gpuplatform.dev.embedded.ports import LOOPBACK, choose_port, free_port, free_ports, is_free


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as server:
        server.bind((LOOPBACK, 0))
        server.listen()
        yield server.getsockname()[1]


def test_free_ports_are_free_and_different() -> None:
    ports = free_ports(5)

    assert len(set(ports)) == 5
    assert all(is_free(port) for port in ports)


def test_a_free_port_is_not_assigned_to_outgoing_connections() -> None:
    with (
        socket.create_server((LOOPBACK, 0)) as server,
        socket.create_connection(server.getsockname()) as outgoing,
    ):
        assert free_port() < outgoing.getsockname()[1]


def test_a_port_with_a_server_is_in_use(taken: int) -> None:
    assert not is_free(taken)


def test_the_default_is_used_while_it_is_free() -> None:
    default = free_port()

    assert choose_port("", default).port == default


def test_a_default_in_use_is_replaced_with_a_notice(taken: int) -> None:
    chosen = choose_port("", taken)

    assert is_free(chosen.port)
    assert chosen.notice == f"Port {taken} is in use, so the platform listens on {chosen.port}."


def test_a_requested_port_in_use_is_named(taken: int) -> None:
    with pytest.raises(StartError, match=rf"Port {taken} \(PORT\) is in use"):
        choose_port(str(taken), 8080)


@pytest.mark.parametrize("asked", ["0", "65536", "-1", "http", "²", "8080 "])
def test_an_invalid_port_is_named(asked: str) -> None:
    with pytest.raises(StartError, match="is not a port"):
        choose_port(asked, 8080)
