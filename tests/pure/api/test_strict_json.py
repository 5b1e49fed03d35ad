"""JSON that is almost valid is rejected, with the path of the error."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplatform.api.strict_json import MAX_DEPTH, loads
from gpuplatform.errors import RequestError


def refused(body: bytes) -> RequestError:
    with pytest.raises(RequestError) as caught:
        loads(body)
    return caught.value


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"gpu":1,"gpu":8}', "gpu"),
        (b'{"a":{"b":[{"c":1,"c":1}]}}', "a.b[0].c"),
        (b'{"gpu":NaN}', "gpu"),
        (b'{"gpu":[1,-Infinity]}', "gpu[1]"),
        (b'{"gpu":1e400}', "gpu"),
        (b'{"gpu":' + b"9" * 5000 + b"}", "gpu"),
        (b'{"a":"x\\u0000"}', "a"),
        (b'{"a":["\\ud800"]}', "a[0]"),
        (b'{"a\\u0000":1}', ""),
        (b'{"a":{"\\udfff":1}}', "a"),
    ],
)
def test_rejected_with_its_path(body: bytes, field: str) -> None:
    assert [one.field for one in refused(body).details] == [field]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" \n",
        b'\xef\xbb\xbf{"a":1}',
        '{"a":1}'.encode("utf-16-le"),
        '{"a":1}'.encode("utf-16"),
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}',
        b'{"a":1} x',
        b"{'a':1}",
        b'{"a":1,}',
        b'{"a":01}',
        b'{"a":+1}',
        b'{"a":"\x01"}',
        b"x",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[" * (MAX_DEPTH + 2) + b"]" * (MAX_DEPTH + 2),
    ],
)
def test_rejected_as_a_whole(body: bytes) -> None:
    started = time.process_time()

    assert refused(body).details == ()

    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"gpu":-0}', {"gpu": 0}),
        (b'{"gpu":1.0}', {"gpu": 1.0}),
        (b"[]", []),
        (b"null", None),
        (b'"\\ud83d\\ude80"', "🚀"),
        ('{"ü":"🚀"}'.encode(), {"ü": "🚀"}),
        (b"[" * 64 + b"]" * 64, None),
    ],
)
def test_valid_json_is_parsed(body: bytes, value: object) -> None:
    result = loads(body)

    assert value is None or result == value
    assert not isinstance(result, bool)


@given(
    st.binary(max_size=200)
    | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
def test_any_bytes_are_a_value_or_a_request_error(body: bytes) -> None:
    try:
        loads(body)
    except RequestError as error:
        outcome = str(error)
    else:
        outcome = "."

    outcome.encode()
    assert outcome.endswith(".")
