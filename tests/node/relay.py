"""Relays connections from the network of the machine to the API server in the nodes' network.

A socket remains in the network namespace in which it was created. So `python -m tests.node up`
creates the listening socket, and the process that it becomes accepts from it in other namespaces.
"""

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator

from typing_extensions import override

HOST = "localhost"
"""A name for which the certificate of the API server is valid."""
_PIECE_BYTES = 65_536


def inheritable_listener() -> int:
    """Return the file descriptor of a listening socket on loopback, for the next program."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.set_inheritable(True)
    return listener.detach()


@contextlib.contextmanager
def relaying(descriptor: int, host: str, port: int) -> Iterator[int]:
    """Relay connections of an inherited listener to an address; yield the listener's port."""
    with _Server(socket.socket(fileno=descriptor), (host, port)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield server.port
        finally:
            server.shutdown()
            thread.join()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, listener: socket.socket, target: tuple[str, int]) -> None:
        host, self.port = listener.getsockname()
        super().__init__((host, self.port), _Connection, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.target = target


class _Connection(socketserver.BaseRequestHandler):
    server: _Server

    @override
    def handle(self) -> None:
        """Copy in both directions until both ends have closed."""
        with socket.create_connection(self.server.target) as upstream:
            replies = threading.Thread(target=_copy, args=(upstream, self.request), daemon=True)
            replies.start()
            _copy(self.request, upstream)
            replies.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_PIECE_BYTES):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
