"""Ports of the embedded servers and of web, on loopback only."""

import os
import socket
from dataclasses import dataclass

from gpuplatform.dev.embedded.errors import StartError

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """Return a port on loopback that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


LOWEST_OPEN_PORT = 1024
"""Below it a system lets only administrators listen, unless it is set up otherwise."""


def may_listen(port: int) -> bool:
    """Say whether the system lets this user listen on the port."""
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except PermissionError:
            return False
        except OSError:
            return True  # It is taken, which is another matter.
        return True


def is_free(port: int) -> bool:
    """Say whether a server could listen on this port of loopback.

    A connection in TIME_WAIT is no hindrance, since servers set SO_REUSEADDR as well. A server
    on all addresses is one: the bind then succeeds on some systems, so it is asked by connecting.
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
    """The port of web; `notice` is a sentence for the log where the default was taken."""

    port: int
    notice: str = ""


def choose_port(asked: str, default: int) -> ChosenPort:
    """Return the asked-for port, else the default, else a free one.

    Raises:
        StartError: the asked-for value is no port, or somebody listens there.
    """
    if not asked:
        if is_free(default):
            return ChosenPort(default)
        port = free_port()
        return ChosenPort(port, f"Port {default} is taken, so the platform listens on {port}.")
    if not (asked.isascii() and asked.isdigit() and 1 <= int(asked) <= 65535):
        raise StartError(
            f"PORT={asked} is no port. Set a number from 1 to 65535, or leave it out."
        )
    if int(asked) < LOWEST_OPEN_PORT and os.geteuid() != 0 and not may_listen(int(asked)):
        raise StartError(
            f"Port {asked}, asked for by PORT, is for administrators only."
            f" Choose one from {LOWEST_OPEN_PORT} on."
        )
    if not is_free(int(asked)):
        raise StartError(
            f"Port {asked}, asked for by PORT, is taken."
            " Stop what listens there, or choose another port."
        )
    return ChosenPort(int(asked))
