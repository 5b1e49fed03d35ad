"""A model server that is independent of the platform: `python -m tests.fakes.tcp_function`.

It listens on the TCP port `PORT`, and is healthy at `/health` after it has loaded for
`LOAD_SECONDS`. It responds to a completion with a stream of events, one chunk for each token, and
to any other request with the method, the path and the query. A test can run its source in the
image of a function.
"""

import json
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from typing_extensions import override

LOADED_AT = time.monotonic() + float(os.environ.get("LOAD_SECONDS", "0"))
PAUSE_SECONDS = 0.05


class Call(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Respond to the health check."""
        if self.path != "/health":
            self._respond()
            return
        is_loaded = time.monotonic() >= LOADED_AT
        self.send_response(200 if is_loaded else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_PUT(self) -> None:
        """Respond with the method."""
        self._respond()

    def do_POST(self) -> None:
        """Respond with the tokens of a completion, or with the method."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = json.loads(body) if body.startswith(b"{") else {}
        if "tokens" in asked:
            self._stream(asked["tokens"], is_broken=asked.get("broken", False))
        else:
            self._respond()

    def _respond(self) -> None:
        body = f"{self.command} {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, tokens: list[str], *, is_broken: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        for token in [*tokens, None]:
            chunk_text = "[DONE]" if token is None else json.dumps({"text": token})
            data = f"data: {chunk_text}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
            time.sleep(PAUSE_SECONDS)  # The tokens arrive one by one, as from a model.
        if not is_broken:
            self.wfile.write(b"0\r\n\r\n")

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests."""


if __name__ == "__main__":
    address = (os.environ.get("HOST", "127.0.0.1"), int(os.environ["PORT"]))
    ThreadingHTTPServer(address, Call).serve_forever()
