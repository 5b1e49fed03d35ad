"""A chunked body gets a length, and a body that is too large is truncated."""

from io import BytesIO
from typing import Any

import pytest

from gpuplatform.api.chunked import ChunkedBodies
from gpuplatform.api.parsers import MAX_BODY_BYTES


class Seen:
    """A WSGI application that stores the requests that it received."""

    def __call__(self, environ: dict[str, Any], _start: Any) -> list[bytes]:
        self.environ = environ
        return []

    def body(self) -> bytes:
        taken: bytes = self.environ["wsgi.input"].read(int(self.environ["CONTENT_LENGTH"]))
        return taken


def test_a_chunked_body_gets_its_length() -> None:
    seen = Seen()
    environ = {
        "HTTP_TRANSFER_ENCODING": "Chunked",
        "wsgi.input_terminated": True,
        "wsgi.input": BytesIO(b'{"a":1}'),
    }

    ChunkedBodies(seen)(environ, lambda *_: lambda _: None)

    assert seen.body() == b'{"a":1}'


def test_an_endless_body_is_cut_just_past_the_limit() -> None:
    seen = Seen()
    environ = {
        "HTTP_TRANSFER_ENCODING": "chunked",
        "wsgi.input_terminated": True,
        "wsgi.input": BytesIO(b"x" * (MAX_BODY_BYTES + 100)),
    }

    ChunkedBodies(seen)(environ, lambda *_: lambda _: None)

    assert len(seen.body()) == MAX_BODY_BYTES + 1


@pytest.mark.parametrize(
    "extra", [{"wsgi.input_terminated": True}, {"HTTP_TRANSFER_ENCODING": "chunked"}]
)
def test_other_bodies_are_unchanged(extra: dict[str, Any]) -> None:
    seen = Seen()
    body = BytesIO(b"abc")

    ChunkedBodies(seen)({"wsgi.input": body, **extra}, lambda *_: lambda _: None)

    assert seen.environ["wsgi.input"] is body
    assert "CONTENT_LENGTH" not in seen.environ
