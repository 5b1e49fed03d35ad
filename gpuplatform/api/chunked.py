"""Support for request bodies with `Transfer-Encoding: chunked`, which Django reads as empty.

At most one byte more than the maximum body size is read, so that the parser rejects a larger body
without keeping all of it in memory.
"""

from collections.abc import Iterable
from io import BytesIO
from typing import TYPE_CHECKING

from gpuplatform.api.parsers import MAX_BODY_BYTES

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class ChunkedBodies:
    """WSGI middleware that reads chunked bodies and sets their `Content-Length`."""

    def __init__(self, application: "WSGIApplication") -> None:
        self._application = application

    def __call__(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        """Return the response to one request."""
        is_chunked = "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower()
        # Without a length, the input can be read only if the server ends it.
        if is_chunked and environ.get("wsgi.input_terminated"):
            body = environ["wsgi.input"].read(MAX_BODY_BYTES + 1)
            environ["wsgi.input"] = BytesIO(body)
            environ["CONTENT_LENGTH"] = str(len(body))
        return self._application(environ, start_response)
