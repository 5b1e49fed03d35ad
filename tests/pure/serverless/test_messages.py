"""Encoding and decoding of the messages of the streams."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplatform.clock import now
from serverless.queue.messages import (
    MAX_ERROR_LENGTH,
    MAX_RESULT_BYTES,
    EndReport,
    InvocationMessage,
    MalformedMessage,
    StartReport,
    decode_advisory,
    decode_invocation,
    decode_report,
)
from serverless.queue.names import INVOCATIONS

HEAD = {"key": 7, "publication": 1, "receipt": "r", "attempt": 2, "sequence": 9, "worker": "w"}


def message(**changes: Any) -> InvocationMessage:
    """Return an invocation."""
    fields: dict[str, Any] = {
        "key": 7,
        "publication": 1,
        "invocation_id": "i-1",
        "receipt": "r",
        "content_type": "text/plain",
        "timeout_seconds": 30,
        "payload": b"x",
    }
    return InvocationMessage(**{**fields, **changes})


def finished(**changes: Any) -> EndReport:
    """Return the report of an end."""
    fields = {**HEAD, "state": "Succeeded", "started_at": now(), "completed_at": now()}
    return EndReport(**{**fields, **changes})


@given(
    payload=st.binary(max_size=200),
    headers=st.dictionaries(st.text(max_size=20), st.text(max_size=50), max_size=5),
)
def test_invocation_round_trip(payload: bytes, headers: dict[str, str]) -> None:
    written = message(payload=payload, headers=headers)

    encoded = written.encoded_headers()

    assert decode_invocation(encoded, written.payload) == written
    assert all(text.isascii() and "\n" not in text for text in encoded.values())


@pytest.mark.parametrize(
    "change",
    [
        *({name: None} for name in message().encoded_headers() if name != "Nats-Msg-Id"),
        {"X-Invocation-Key": "0"},
        {"X-Invocation-Key": "-1"},
        {"X-Invocation-Key": "9" * 30},
        {"X-Timeout-Seconds": "soon"},
        {"X-Headers": "[]"},
        {"X-Headers": '{"a": 1}'},
        {"X-Headers": "{"},
    ],
    ids=str,
)
def test_malformed_invocation_is_rejected(change: dict[str, str | None]) -> None:
    encoded = {**message().encoded_headers(), **change}

    with pytest.raises(MalformedMessage):
        decode_invocation({k: v for k, v in encoded.items() if v is not None}, b"")


def test_message_without_headers_is_rejected() -> None:
    with pytest.raises(MalformedMessage):
        decode_invocation(None, b"{}")


@given(body=st.binary(max_size=300), size=st.integers(0, 2**60))
def test_end_report_round_trip(body: bytes, size: int) -> None:
    written = finished(body=body, size=size, headers={"X-A": "1"})

    assert decode_report(written.encode()) == written


def test_start_report_round_trip() -> None:
    written = StartReport(**HEAD, started_at=now())

    assert decode_report(written.encode()) == written


def test_message_id_of_report_contains_receipt() -> None:
    written = StartReport(**HEAD, started_at=now())

    assert written.message_id == f"{HEAD['receipt']}-2-started"


def test_unknown_field_is_ignored() -> None:
    body = {**json.loads(finished().encode()), "gpuSeconds": 3}

    assert decode_report(json.dumps(body).encode()).key == 7


@pytest.mark.parametrize(
    "change",
    [
        {"state": "Queued"},
        {"state": "Failed"},
        {"failureClass": "framework_error"},
        {"type": "progress"},
        {"key": 0},
        {"key": 2**63},
        {"attempt": 0},
        {"publication": None},
        {"worker": "w" * 64},
        {"error": "a\0b", "state": "Failed", "failureClass": "x"},
        {"error": "\ud800", "state": "Failed", "failureClass": "x"},
        {"contentType": "text/plain\r\nSet-Cookie: a=b"},
        {"headers": {"a": "b\0"}},
        {"headers": {"a": "b" * 40000}},
        {"statusCode": 99},
        {"bytes": -1},
        {"body": "not base64!"},
        {"completedAt": "yesterday"},
        {"startedAt": "2026-01-01T00:00:00"},
    ],
    ids=lambda change: json.dumps(change)[:40],
)
def test_malformed_report_is_rejected(change: dict[str, Any]) -> None:
    body = {**json.loads(finished().encode()), **change}

    with pytest.raises(MalformedMessage):
        decode_report(json.dumps(body).encode())


def test_too_large_response_is_rejected() -> None:
    with pytest.raises(ValueError, match="at most"):
        finished(body=b"x" * (MAX_RESULT_BYTES + 1))


@given(st.binary(max_size=100))
def test_arbitrary_bytes_are_decoded_or_rejected(body: bytes) -> None:
    for decode in (decode_report, decode_advisory, lambda raw: decode_invocation({}, raw)):
        with pytest.raises(MalformedMessage):
            decode(body)


def advisory(**changes: Any) -> bytes:
    """Return an advisory as the server writes it."""
    fields = {
        "type": "io.nats.jetstream.advisory.v1.max_deliver",
        "stream": INVOCATIONS,
        "consumer": "fn-7",
        "stream_seq": 12,
        "deliveries": 5,
    }
    return json.dumps({**fields, **changes}).encode()


def test_advisory_is_decoded() -> None:
    found = decode_advisory(advisory())

    assert (found.function, found.stream_sequence, found.deliveries) == (7, 12, 5)
    assert not found.was_terminated


def test_advisory_of_rejected_message_has_reason() -> None:
    found = decode_advisory(
        advisory(type="io.nats.jetstream.advisory.v1.terminated", reason="no\0 key" * 1000)
    )

    assert found.was_terminated
    assert found.reason == ("no key" * 1000)[:MAX_ERROR_LENGTH]


@pytest.mark.parametrize(
    "change",
    [{"stream": "X"}, {"consumer": "results"}, {"consumer": "fn-x"}, {"stream_seq": None}],
    ids=str,
)
def test_other_advisory_is_rejected(change: dict[str, Any]) -> None:
    with pytest.raises(MalformedMessage):
        decode_advisory(advisory(**change))
