"""Every error has a path and a message; a hostile payload gets a short response."""

from collections.abc import Mapping
from typing import Annotated, Literal

import pytest
from pydantic import Field

from gpuplatform.errors import InvalidSpec
from gpuplatform.formats.model import MAX_ERRORS, SpecModel, json_path


class Inner(SpecModel):
    size: int = Field(ge=1, le=9)
    word: str = Field(default="ab", min_length=2)
    kind: Literal["A", "B"] = "A"


class Outer(SpecModel):
    inner_one: Inner | None = Field(default=None, alias="innerOne")
    rows: Annotated[tuple[Inner, ...], Field(strict=False)] = Field(default=(), max_length=2)
    flag: bool = False
    text: str = Field(default="", max_length=3)
    either: int | str | None = None
    names: Mapping[Annotated[str, Field(min_length=2)], int] = {}


def faults(raw: object) -> list[tuple[str, str]]:
    with pytest.raises(InvalidSpec) as caught:
        Outer.parse(raw)
    return [(one.field, one.message) for one in caught.value.details]


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (None, ""),
        ([], ""),
        ("x", ""),
        ({"typo": 1}, "typo"),
        ({"inner_one": {"size": 1}}, "inner_one"),
        ({"innerOne": None}, "innerOne"),
        ({"innerOne": {}}, "innerOne.size"),
        ({"innerOne": {"size": "1"}}, "innerOne.size"),
        ({"innerOne": {"size": True}}, "innerOne.size"),
        ({"innerOne": {"size": 1.0}}, "innerOne.size"),
        ({"innerOne": {"size": 0}}, "innerOne.size"),
        ({"innerOne": {"size": 10**4000}}, "innerOne.size"),
        ({"innerOne": {"size": 1, "kind": "C"}}, "innerOne.kind"),
        ({"innerOne": {"size": 1, "word": ""}}, "innerOne.word"),
        ({"rows": {"A": "b"}}, "rows"),
        ({"rows": [None]}, "rows[0]"),
        ({"rows": [{"size": 1}, {"size": []}]}, "rows[1].size"),
        ({"rows": [{"size": 1}] * 3}, "rows"),
        ({"names": {"a b": "1"}}, "names['a b']"),
        ({"names": {"a": 1}}, "names.a"),
        ({"flag": "yes"}, "flag"),
        ({"text": 1}, "text"),
        ({"text": "1234"}, "text"),
    ],
)
def test_an_error_has_its_path(raw: object, field: str) -> None:
    [(path, message)] = faults(raw)

    assert path == field
    assert message.endswith(".")


def test_the_message_contains_the_first_error() -> None:
    with pytest.raises(InvalidSpec) as caught:
        Outer.parse({"innerOne": {}, "typo": 1})

    first, second = caught.value.details
    assert caught.value.message.startswith(f"{first.field}: {first.message}")
    assert second.message not in caught.value.message


def test_a_body_with_many_errors_gets_a_short_response() -> None:
    assert len(faults({f"key{n}": n for n in range(5000)})) == MAX_ERRORS


def test_the_canonical_form_has_no_defaults() -> None:
    one = Outer.parse(
        {"innerOne": {"size": 2, "kind": "A"}, "rows": [], "text": "", "flag": False}
    )
    other = Outer.parse({"innerOne": {"size": 2}})

    assert one.normalised() == other.normalised() == {"innerOne": {"size": 2}}


def test_the_schema_of_a_spec_allows_no_null() -> None:
    schema = Outer.model_json_schema()

    assert schema["properties"]["innerOne"] == {"$ref": "#/$defs/Inner"}
    assert schema["properties"]["either"]["anyOf"] == [{"type": "integer"}, {"type": "string"}]


@pytest.mark.parametrize(
    ("location", "path"),
    [
        (("template", "ports", 1, "name"), "template.ports[1].name"),
        ((), ""),
        ((0,), "[0]"),
        (("a.b",), "['a.b']"),
        (("x" * 500,), f"['{'x' * 40}…']"),
        (("a", "\ud800"), "a['\\ud800']"),
    ],
)
def test_paths(location: tuple[str | int, ...], path: str) -> None:
    assert json_path(location) == path
