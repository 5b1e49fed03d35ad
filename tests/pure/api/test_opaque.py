"""Opaque numbers: equal for a purpose, and readable by the platform only."""

import base64

import pytest
from pytest_django import Settings

from gpuplatform.api.opaque import opaque, opened
from gpuplatform.api.pagination import decode_cursor, encode_cursor
from gpuplatform.errors import InvalidSpec


@pytest.mark.parametrize("number", [0, 1, 270, 2**63 - 1])
def test_a_number_is_read_back(number: int) -> None:
    text = opaque(number, "cursor")

    assert opened(text, "cursor") == number
    assert opaque(number, "cursor") == text


def test_the_text_does_not_contain_the_number() -> None:
    # A number of a few digits can be in the encrypted bytes by chance.
    number = 2**63 - 1
    text = opaque(number, "cursor")

    content = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert str(number).encode() not in content
    assert number.to_bytes(8, "big") not in content


def test_neighbours_have_nothing_in_common() -> None:
    first, second = opaque(270, "cursor"), opaque(271, "cursor")

    assert sum(a == b for a, b in zip(first, second, strict=True)) < 12


@pytest.mark.parametrize("text", ["", "x", "MS4yNzA", "\u00e9", "A" * 64])
def test_another_text_is_rejected(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the messages of the libraries differ
        opened(text, "cursor")


def test_a_number_of_another_purpose_or_platform_is_rejected(settings: Settings) -> None:
    text = opaque(5, "cursor")
    with pytest.raises(ValueError, match="not created"):
        opened(text, "result")

    settings.SECRET_KEY = "another platform"
    with pytest.raises(ValueError, match="not created"):
        opened(text, "cursor")


def test_a_plain_or_changed_cursor_is_rejected() -> None:
    with pytest.raises(InvalidSpec):
        decode_cursor("MS4yNzA")
    cursor = encode_cursor(270)
    with pytest.raises(InvalidSpec):
        decode_cursor(cursor[:-2] + ("A" if cursor[-2] != "A" else "B") + cursor[-1])
