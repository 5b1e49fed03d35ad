"""A server that knows nothing of the platform: `python -m tests.fakes.tcp_function`.

It listens on the TCP port `PORT`, is healthy at `/health`, and responds to each POST with the
requested path and query.
"""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from typing_extensions import override


class Call(BaseHTTPRequestHandler):
    """One connection."""

    def do_GET(self) -> None:
        """Respond to the health check."""
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

    def do_POST(self) -> None:
        """Respond with the path."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.path.encode())

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Do not log requests."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Call).serve_forever()
