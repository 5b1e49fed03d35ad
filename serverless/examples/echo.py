"""Responds to each invocation with its payload: `python -m serverless.examples.echo`.

Two headers change the response: `X-Echo-Seconds` delays it, `X-Echo-Status` sets its status.
"""

import time

from serverless.framework import Request, Response, serve


def echo(request: Request) -> Response:
    """Return the payload, and the number of the attempt in a header."""
    time.sleep(float(request.headers.get("x-echo-seconds", "0")))
    return Response(
        request.body,
        status=int(request.headers.get("x-echo-status", "200")),
        content_type=request.content_type or "application/octet-stream",
        headers={"X-Echo-Attempt": str(request.attempt)},
    )


if __name__ == "__main__":
    serve(echo)
