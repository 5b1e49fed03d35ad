"""Selection of loopback ports for the embedded servers and the web server."""

import itertools
import os
import random
import socket
from dataclasses import dataclass

from gpuplatform.dev.embedded.errors import StartError

LOOPBACK = "127.0.0.1"


LOWEST_OPEN_PORT = 1024
"""Lowest port that unprivileged users can bind by default on Linux."""

SERVER_PORTS = range(10240, 32768)
"""Ports of embedded servers: below those that Linux and macOS assign to outgoing connections."""


def free_port() -> int:
    """Return the number of a loopback port that is currently free (see `free_ports`)."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return the numbers of different loopback ports that are currently free.

    No outgoing connection of another process can get a port before the server listens.

    Raises:
        StartError: If too few ports were found.
    """
    candidates = random.sample(SERVER_PORTS, 100)
    if len(found := list(itertools.islice(filter(is_free, candidates), count))) < count:
        raise StartError(
            f"No free port was found between {SERVER_PORTS.start} and {SERVER_PORTS.stop - 1}."
            " Stop processes that listen on these ports."
        )
    return found


def may_listen(port: int) -> bool:
    """Return whether the current user has permission to listen on the port."""
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except PermissionError:
            return False
        except OSError:
            return True  # `is_free` reports that the port is in use.
        return True


def is_free(port: int) -> bool:
    """Return whether a server can listen on the loopback port.

    A connection in TIME_WAIT does not block the port, because servers set SO_REUSEADDR. A server
    that listens on all addresses does, but some systems still permit the bind. Therefore this
    function also tries to connect.
    """
    with socket.socket() as probe:
        probe.settimeout(0.5)
        if probe.connect_ex((LOOPBACK, port)) == 0:
            return False
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class ChosenPort:
    """The port of the web server. `notice` is a log message if the default port was in use."""

    port: int
    notice: str = ""


def choose_port(requested: str, default: int) -> ChosenPort:
    """Return the requested port; without a request, the default port or another free port.

    Raises:
        StartError: If the requested value is not a valid port, or the port is in use.
    """
    if not requested:
        if is_free(default):
            return ChosenPort(default)
        port = free_port()
        return ChosenPort(port, f"Port {default} is in use, so the platform listens on {port}.")
    if not (requested.isascii() and requested.isdigit() and 1 <= int(requested) <= 65535):
        raise StartError(
            f"PORT={requested} is not a port. Set a number from 1 to 65535, or unset it."
        )
    if int(requested) < LOWEST_OPEN_PORT and os.geteuid() != 0 and not may_listen(int(requested)):
        raise StartError(
            f"Port {requested} (PORT) is reserved for administrators."
            f" Choose {LOWEST_OPEN_PORT} or a higher one."
        )
    if not is_free(int(requested)):
        raise StartError(
            f"Port {requested} (PORT) is in use."
            " Stop the process that listens there, or choose another port."
        )
    return ChosenPort(int(requested))
