"""An example is composed of the examples on the fields, and is valid."""

from datetime import datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from gpuplatform.api.examples import EXAMPLE_TIME, reply_example, request_example


class Inner(BaseModel):
    size: int = Field(examples=[3, 4])
    kind: Literal["A"] = "A"


class Body(BaseModel):
    inner: Inner
    maybe: Inner = Inner(size=5)
    rows: list[Inner] = Field(examples=[[{"size": 3, "kind": "A"}]])
    silent_rows: list[str] = []
    flag: bool = False
    free: Annotated[dict[str, Any] | None, Field(default=None)]
    given: Inner = Field(examples=[{"size": 9}])


class Answer(BaseModel):
    inner: Inner
    maybe: Inner | None
    rows: list[Inner]
    flag: bool
    at: datetime
    free: dict[str, Any]


class Nameless(BaseModel):
    name: str


def test_a_request_has_examples_first_then_defaults() -> None:
    example = request_example(Body)

    assert example == {
        "inner": {"size": 3, "kind": "A"},
        "maybe": {"size": 3, "kind": "A"},
        "rows": [{"size": 3, "kind": "A"}],
        "silent_rows": [],
        "flag": False,
        "free": None,
        "given": {"size": 9},
    }
    assert Body.model_validate(example).inner.size == 3


def test_a_reply_is_complete_with_null_where_nothing_else_is_given() -> None:
    example = reply_example(Answer)

    assert example == {
        "inner": {"size": 3, "kind": "A"},
        "maybe": None,
        "rows": [{"size": 3, "kind": "A"}],
        "flag": False,
        "at": EXAMPLE_TIME,
        "free": {},
    }


def test_given_values_replace_those_of_the_fields() -> None:
    assert request_example(Body, flag=True)["flag"] is True


def test_a_value_of_an_unknown_field_is_rejected() -> None:
    with pytest.raises(ValueError, match="size"):
        reply_example(Answer, size=1)


def test_a_required_field_needs_an_example() -> None:
    with pytest.raises(ValueError, match="name"):
        reply_example(Nameless)
