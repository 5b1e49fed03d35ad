"""Whether the client of a request still waits for the response."""

import socket
from typing import Final

from rest_framework.request import Request

SOCKET_KEY: Final = "gunicorn.socket"
"""Key of the client's connection in the WSGI environment."""

_TCP_ESTABLISHED: Final = 1
"""State of a connection that the client has not closed.

Source: Linux, include/net/tcp_states.h.
"""


def has_disconnected(request: Request) -> bool:
    """Return whether the client has closed its connection, or `False` if that is unknown.

    It is unknown if the server does not pass the connection, if the connection is not TCP, or on
    another system than Linux. Nothing is read from the connection.
    """
    connection: socket.socket | None = request.META.get(SOCKET_KEY)
    if connection is None or not hasattr(socket, "TCP_INFO"):
        return False
    try:
        # The state is the first byte. It does not change when the server stops reading.
        state = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    except OSError:
        return False
    return state != _TCP_ESTABLISHED
