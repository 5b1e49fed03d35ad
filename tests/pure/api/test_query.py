"""Query parameters are as strict as bodies, and invalid cursors are rejected."""

import base64

import pytest
from django.http import QueryDict
from pydantic import Field

from gpuplatform.api.pagination import decode_cursor, encode_cursor
from gpuplatform.api.query import NoQuery, PageQuery
from gpuplatform.errors import InvalidSpec


class Sample(PageQuery):
    spec_name: str | None = Field(default=None, alias="specName")


def fields_of(text: str) -> list[str]:
    with pytest.raises(InvalidSpec) as caught:
        Sample.parse(QueryDict(text, encoding="utf-8"))
    return [one.field for one in caught.value.details]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=-1", "limit"),
        ("limit=1.0", "limit"),
        ("limit=1_0", "limit"),
        ("limit=%201", "limit"),
        ("limit=%D9%A3", "limit"),
        ("limit=", "limit"),
        ("limit=99999999999999999999", "limit"),
        ("limit=1&limit=2", "limit"),
        ("spec_name=a", "spec_name"),
        ("specName=%00", "specName"),
        ("format=json", "format"),
    ],
)
def test_rejected_with_the_name(text: str, field: str) -> None:
    assert fields_of(text) == [field]


def test_what_is_declared_is_read() -> None:
    query = Sample.parse(QueryDict("limit=200&specName=g1.1", encoding="utf-8"))

    assert (query.limit, query.spec_name, query.cursor) == (200, "g1.1", None)
    assert Sample.parse(QueryDict("", encoding="utf-8")).limit == 50


def test_a_route_without_parameters_rejects_them() -> None:
    with pytest.raises(InvalidSpec, match="page: Is not a known field"):
        NoQuery.parse(QueryDict("page=2", encoding="utf-8"))


@pytest.mark.parametrize("number", [1, 50, 10**18 - 1])
def test_a_cursor_is_read_back(number: int) -> None:
    assert decode_cursor(encode_cursor(number)) == number


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "....", "MS4w", "ü", "a" * 5000]
    + [
        base64.urlsafe_b64encode(text).decode()
        for text in (b"2.5", b"1.-5", b"1.0", b"1.1e5", b"1." + b"9" * 30, b"1.5 ", b"\xff")
    ],
)
def test_an_invalid_cursor_is_rejected(cursor: str) -> None:
    with pytest.raises(InvalidSpec, match="cursor"):
        decode_cursor(cursor)
