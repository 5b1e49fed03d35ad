"""Selects the ports of the embedded servers and of web, on loopback only."""

import os
import socket
from dataclasses import dataclass

from gpuplatform.dev.embedded.errors import StartError

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """Return a port on loopback that is currently free."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


LOWEST_OPEN_PORT = 1024
"""Ports below it are reserved for administrators, by default."""


def may_listen(port: int) -> bool:
    """Return whether this user may listen on the port."""
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except PermissionError:
            return False
        except OSError:
            return True  # The port is in use, which `is_free` checks.
        return True


def is_free(port: int) -> bool:
    """Return whether a server can listen on this port of loopback.

    A connection in TIME_WAIT does not prevent it, since servers set SO_REUSEADDR. A server on all
    addresses does, although the bind succeeds on some systems; therefore this also connects.
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
    """The port of web; `notice` is a line for the log if the default was in use."""

    port: int
    notice: str = ""


def choose_port(requested: str, default: int) -> ChosenPort:
    """Return the requested port, else the default, else a free one.

    Raises:
        StartError: The requested value is not a port, or the port is in use.
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
