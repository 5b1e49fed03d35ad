"""A function that breaks HTTP: `python -m tests.fakes.raw_function`.

It answers each invocation with the bytes that are its payload, then closes the connection. It is
healthy otherwise. A payload that begins with `endless ` is repeated, from there, for ever.
"""

import os
import socketserver
from pathlib import Path

from typing_extensions import override

HEALTHY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
ENDLESS = b"endless "


class Answer(socketserver.StreamRequestHandler):
    """One connection."""

    @override
    def handle(self) -> None:
        """Read a request and answer it."""
        line, size = self.rfile.readline(), 0
        while (header := self.rfile.readline().strip()) != b"":
            name, _, text = header.partition(b":")
            if name.lower() == b"content-length":
                size = int(text)
        payload = self.rfile.read(size)
        try:
            self.answer(HEALTHY if line.startswith(b"GET") else payload)
        except OSError:
            return  # The sidecar closed the connection.

    def answer(self, said: bytes) -> None:
        """Send the bytes, once or for ever."""
        self.wfile.write(said.removeprefix(ENDLESS))
        while said.startswith(ENDLESS):
            self.wfile.write(said.removeprefix(ENDLESS))


if __name__ == "__main__":
    path = Path(os.environ["SERVERLESS_SOCKET_PATH"])
    path.unlink(missing_ok=True)
    with socketserver.ThreadingUnixStreamServer(str(path), Answer) as server:
        server.serve_forever()
