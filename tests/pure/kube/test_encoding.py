import json
import re
import string

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpuplatform.kube.encoding import apply_bytes, json_bytes

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)

RAW_TAKEN = re.compile("[\x20-\x7e\U00010000-\U0010ffff]*")
"""Characters that the server's YAML parser reads unchanged in double quotes on one line."""
ESCAPED_SURROGATE = re.compile(r"(?<!\\)(?:\\\\)*\\u[dD][89a-fA-F]")


@given(VALUES)
def test_apply_body_is_json_of_the_same_value(value: object) -> None:
    assert json.loads(apply_bytes(value)) == value


@given(VALUES)
def test_apply_body_has_only_characters_that_the_yaml_parser_accepts(value: object) -> None:
    text = apply_bytes(value).decode("utf-8")

    assert RAW_TAKEN.fullmatch(text)
    assert not ESCAPED_SURROGATE.search(text)


@given(VALUES)
def test_apply_body_is_yaml_of_the_same_value(value: object) -> None:
    assert yaml.safe_load(apply_bytes(value)) == value


def test_every_character_survives_a_yaml_parser() -> None:
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))

    assert yaml.load(apply_bytes(every), yaml.CSafeLoader) == every


@pytest.mark.parametrize(
    "value",
    [
        "<<",
        "~",
        "null",
        "yes",
        "1e3",
        "0x1f",
        "- a",
        "# c",
        "a: b",
        "2026-01-01",
        "  x  ",
        "&a *b",
    ],
)
def test_text_that_resembles_another_yaml_type_stays_text(value: str) -> None:
    assert yaml.safe_load(apply_bytes({"v": value})) == {"v": value}


def test_lone_surrogate_is_left_for_the_server_to_reject() -> None:
    assert apply_bytes("\ud83d") == b'"\\ud83d"'


@pytest.mark.parametrize("encode", [apply_bytes, json_bytes])
def test_number_that_json_lacks_is_rejected(encode: object) -> None:
    assert callable(encode)

    with pytest.raises(ValueError, match="JSON compliant"):
        encode({"v": float("nan")})


@given(VALUES)
def test_other_bodies_are_plain_ascii_json(value: object) -> None:
    body = json_bytes(value)

    assert json.loads(body) == value
    assert set(body.decode("ascii")) <= set(string.printable)
