"""Every fault has a path and a sentence in words; a hostile payload gets a short reply."""

from typing import Annotated, Literal

import pytest
from pydantic import Field

from gpuplatform.errors import InvalidSpec
from gpuplatform.formats.model import MAX_FAULTS, SpecModel, json_path


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


def faults(raw: object) -> list[tuple[str, str]]:
    with pytest.raises(InvalidSpec) as caught:
        Outer.parse(raw)
    return [(one.field, one.message) for one in caught.value.details]


@pytest.mark.parametrize(
    ("raw", "field", "message"),
    [
        (None, "", "Must be an object, not null."),
        ([], "", "Must be an object, not a list."),
        ("x", "", "Must be an object, not a string."),
        ({"typo": 1}, "typo", "Is not a known field."),
        ({"inner_one": {"size": 1}}, "inner_one", "Is not a known field."),
        ({"innerOne": None}, "innerOne", "Must not be null. Leave the field out instead."),
        ({"innerOne": {}}, "innerOne.size", "Is required."),
        ({"innerOne": {"size": "1"}}, "innerOne.size", "Must be an integer, not a string."),
        ({"innerOne": {"size": True}}, "innerOne.size", "Must be an integer, not a boolean."),
        (
            {"innerOne": {"size": 1.0}},
            "innerOne.size",
            "Must be an integer, not a number with a fraction.",
        ),
        ({"innerOne": {"size": 0}}, "innerOne.size", "Must be 1 or more."),
        ({"innerOne": {"size": 10**4000}}, "innerOne.size", "Must be 9 or less."),
        ({"innerOne": {"size": 1, "kind": "C"}}, "innerOne.kind", "Must be 'A' or 'B'."),
        (
            {"innerOne": {"size": 1, "word": ""}},
            "innerOne.word",
            "Must have at least 2 characters.",
        ),
        ({"rows": {"A": "b"}}, "rows", "Must be a list, not an object."),
        ({"rows": [None]}, "rows[0]", "Must be an object, not null."),
        ({"rows": [{"size": 1}, {"size": []}]}, "rows[1].size", "Must be an integer, not a list."),
        ({"rows": [{"size": 1}] * 3}, "rows", "May have at most 2 entries."),
        ({"flag": "yes"}, "flag", "Must be a boolean, not a string."),
        ({"text": 1}, "text", "Must be a string, not an integer."),
        ({"text": "1234"}, "text", "May have at most 3 characters."),
    ],
)
def test_fault_has_path_and_words(raw: object, field: str, message: str) -> None:
    assert faults(raw) == [(field, message)]


def test_the_sentence_names_the_first_fault_and_counts_the_rest() -> None:
    with pytest.raises(InvalidSpec, match=r"innerOne.size: Is required. \(1 more fault.\)"):
        Outer.parse({"innerOne": {}, "typo": 1})


def test_a_body_of_faults_gets_a_short_reply() -> None:
    assert len(faults({f"key{n}": n for n in range(5000)})) == MAX_FAULTS


def test_defaults_are_left_out_of_the_normalised_form() -> None:
    one = Outer.parse(
        {"innerOne": {"size": 2, "kind": "A"}, "rows": [], "text": "", "flag": False}
    )
    other = Outer.parse({"innerOne": {"size": 2}})

    assert one.normalised() == other.normalised() == {"innerOne": {"size": 2}}


def test_the_schema_knows_no_null() -> None:
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
