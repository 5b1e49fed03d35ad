"""Answers each invocation with what it was sent: `python -m serverless.examples.echo`."""

from serverless.framework import Request, Response, serve


def echo(request: Request) -> Response:
    """Return the body as it came, and say which attempt it was."""
    return Response(
        request.body,
        content_type=request.content_type or "application/octet-stream",
        headers={"X-Echo-Attempt": str(request.attempt)},
    )


if __name__ == "__main__":
    serve(echo)
