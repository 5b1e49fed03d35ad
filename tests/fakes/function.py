"""A function that does what its payload says: `python -m tests.fakes.function`.

The payload is a JSON object, all keys optional: `hold` waits until somebody opens the named FIFO
for writing, `die` ends the process, `status` and `size` shape the answer, `raise` raises.
"""

import os
from pathlib import Path

from serverless.framework import Request, Response, serve


def obey(request: Request) -> Response:
    """Do as it is told, and answer with what it was sent."""
    asked = request.json()
    if "hold" in asked:
        Path(asked["hold"]).read_bytes()
    if asked.get("die"):
        os._exit(3)
    if "raise" in asked:
        raise RuntimeError(asked["raise"])
    body = b"x" * asked["size"] if "size" in asked else request.body
    told = {"X-Seen-Attempt": str(request.attempt), "X-Seen-ID": request.invocation_id}
    return Response(body, asked.get("status", 200), request.content_type, told)


if __name__ == "__main__":
    serve(obey)
