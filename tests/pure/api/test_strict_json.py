"""JSON that is almost right is refused, with the path where there is one."""

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
    ("body", "field", "words"),
    [
        (b'{"gpu":1,"gpu":8}', "gpu", "given twice"),
        (b'{"a":{"b":[{"c":1,"c":1}]}}', "a.b[0].c", "given twice"),
        (b'{"gpu":NaN}', "gpu", "NaN is not JSON"),
        (b'{"gpu":[1,-Infinity]}', "gpu[1]", "-Infinity is not JSON"),
        (b'{"gpu":1e400}', "gpu", "too large"),
        (b'{"gpu":' + b"9" * 5000 + b"}", "gpu", "64 digits"),
        (b'{"a":"x\\u0000"}', "a", "NUL"),
        (b'{"a":["\\ud800"]}', "a[0]", "U+D800"),
        (b'{"a\\u0000":1}', "", "NUL"),
        (b'{"a":{"\\udfff":1}}', "a", "U+DFFF"),
    ],
)
def test_refused_with_its_path(body: bytes, field: str, words: str) -> None:
    error = refused(body)

    assert [one.field for one in error.details] == [field]
    assert words in str(error)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b'\xef\xbb\xbf{"a":1}', "byte order mark"),
        ('{"a":1}'.encode("utf-16-le"), "not JSON"),
        ('{"a":1}'.encode("utf-16"), "not UTF-8"),
        (b'{"a":"\xff"}', "not UTF-8"),
        (b'{"a":"\xed\xa0\x80"}', "not UTF-8"),
        (b'{"a":1} x', "not JSON: line 1, column 9"),
        (b"{'a':1}", "not JSON"),
        (b'{"a":1,}', "not JSON"),
        (b'{"a":01}', "not JSON"),
        (b'{"a":+1}', "not JSON"),
        (b'{"a":"\x01"}', "not JSON"),
        (b"x", "not JSON"),
        (b"[" * 100_000, "levels deep"),
        (b'{"a":' * 100_000, "levels deep"),
        (b"[" * (MAX_DEPTH + 2) + b"]" * (MAX_DEPTH + 2), "levels deep"),
    ],
)
def test_refused_as_a_whole(body: bytes, words: str) -> None:
    started = time.monotonic()

    assert words in str(refused(body))

    assert time.monotonic() - started < 1


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
def test_json_means_what_it_says(body: bytes, value: object) -> None:
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
