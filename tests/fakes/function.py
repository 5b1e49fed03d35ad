"""A function that its payload controls: `python -m tests.fakes.function`.

The payload is a JSON object, all keys optional: `hold` waits until the named FIFO is opened for
writing, `die` ends the process, `status` and `size` set the response, `words` is the message
of an exception.
"""

import os
import time
from pathlib import Path

from serverless.framework import Request, Response, serve


def obey(request: Request) -> Response:
    """Execute the payload, and return it."""
    began = time.time()
    asked = request.json()
    if "hold" in asked:
        Path(asked["hold"]).read_bytes()
    if asked.get("die"):
        os._exit(3)
    if "words" in asked:
        raise RuntimeError(asked["words"])
    body = b"x" * asked["size"] if "size" in asked else request.body
    headers = {"X-Seen-At": str(began), "X-Seen-ID": request.invocation_id}
    return Response(body, asked.get("status", 200), request.content_type, headers)


if __name__ == "__main__":
    serve(obey)
