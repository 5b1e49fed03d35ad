"""Answers each invocation with what it was sent: `python -m serverless.examples.echo`.

Two headers change that: `X-Echo-Seconds` is how long it takes, `X-Echo-Status` its status.
"""

import time

from serverless.framework import Request, Response, serve


def echo(request: Request) -> Response:
    """Return the body as it came, and say which attempt it was."""
    time.sleep(float(request.headers.get("x-echo-seconds", "0")))
    return Response(
        request.body,
        status=int(request.headers.get("x-echo-status", "200")),
        content_type=request.content_type or "application/octet-stream",
        headers={"X-Echo-Attempt": str(request.attempt)},
    )


if __name__ == "__main__":
    serve(echo)
