"""A function that violates HTTP: `python -m tests.fakes.raw_function`.

It responds to each invocation with the bytes of the payload and closes the connection. Its health
endpoint works. The rest of a payload that begins with `endless ` is repeated without end.
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
        """Read a request and respond to it."""
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

    def answer(self, response: bytes) -> None:
        """Send the bytes, once or without end."""
        self.wfile.write(response.removeprefix(ENDLESS))
        while response.startswith(ENDLESS):
            self.wfile.write(response.removeprefix(ENDLESS))


if __name__ == "__main__":
    path = Path(os.environ["SERVERLESS_SOCKET_PATH"])
    path.unlink(missing_ok=True)
    with socketserver.ThreadingUnixStreamServer(str(path), Answer) as server:
        server.serve_forever()
