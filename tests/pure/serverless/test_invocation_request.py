"""The body of an invocation."""

from typing import Any

import pytest

from gpuplatform.errors import InvalidSpec, TooLarge
from serverless.requests import InvocationCreate

BODY = {"requestID": "echo", "payload": "hello"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"payload": 1}, "payload"),
        ({"payload": None}, "payload"),
        ({"mode": "later"}, "mode"),
        ({"contentType": "json"}, "contentType"),
        ({"contentType": "a/b\r\nX: 1"}, "contentType"),
        ({"contentType": "text/plain\n"}, "contentType"),
        ({"contentType": "a/" + "b" * 130}, "contentType"),
        ({"headers": {"X A": "1"}}, "headers"),
        ({"headers": {"": "1"}}, "headers"),
        ({"headers": {"X-A": "1\r\nX-B: 2"}}, "headers"),
        ({"headers": {"X-A": "ä"}}, "headers"),
        ({"headers": {"X-A": "1", "x-a": "2"}}, "headers"),
        ({"headers": {"Content-Length": "1"}}, "headers"),
        ({"headers": {"content_length": "1"}}, "headers"),
        ({"headers": {"X-A-B": "1", "X_A-b": "2"}}, "headers"),
        ({"headers": {"X_Invocation_ID": "a"}}, "headers"),
        ({"headers": {"Host": "a"}}, "headers"),
        ({"headers": {"X-Invocation-Receipt": "a"}}, "headers"),
        ({"headers": {f"X-{i}": "v" * 4000 for i in range(10)}}, "headers"),
        ({"headers": {f"X-{i}": "" for i in range(65)}}, "headers"),
        ({"timeoutSeconds": 0}, "timeoutSeconds"),
        ({"timeoutSeconds": 3601}, "timeoutSeconds"),
        ({"invocationID": "a b"}, "invocationID"),
        ({"invocationID": ".."}, "invocationID"),
        ({"payloadEncoding": "hex"}, "payloadEncoding"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_invalid_value_is_rejected_by_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        InvocationCreate.parse({**BODY, **change})

    assert caught.value.details[0].field == field


@pytest.mark.parametrize(
    "payload", ["a", "=", "aGVsbG8", "aGVs bG8=", "aGVsbG8=\n", "ä"], ids=repr
)
def test_invalid_base64_is_rejected(payload: str) -> None:
    body = InvocationCreate.parse({**BODY, "payload": payload, "payloadEncoding": "base64"})

    with pytest.raises(InvalidSpec):
        body.payload_bytes()


def test_lone_surrogate_is_rejected() -> None:
    with pytest.raises(InvalidSpec):
        InvocationCreate.parse({**BODY, "payload": "\ud800"}).payload_bytes()


def test_limit_counts_bytes_not_characters() -> None:
    with pytest.raises(TooLarge):
        InvocationCreate.parse({**BODY, "payload": "ä" * (300 * 1024)}).payload_bytes()


def test_empty_payload_is_valid() -> None:
    assert InvocationCreate.parse({**BODY, "payload": ""}).payload_bytes() == b""


def test_explicit_defaults_have_same_hash() -> None:
    spelled = {"mode": "async", "contentType": "application/json", "headers": {}}

    assert InvocationCreate.parse(BODY).hashed() == (
        InvocationCreate.parse({**BODY, **spelled}).hashed()
    )
