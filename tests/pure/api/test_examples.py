"""An example is put together from what the fields say, and is valid."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from gpuplatform.api.examples import example_of


class Inner(BaseModel):
    size: int = Field(examples=[3, 4])
    kind: Literal["A"] = "A"


class Outer(BaseModel):
    inner: Inner
    maybe: Inner | None = None
    rows: list[Inner] = []
    silent_rows: list[str] = []
    flag: bool = False
    free: Annotated[dict[str, Any] | None, Field(default=None)]
    given: Inner = Field(examples=[{"size": 9}])


def test_examples_come_first_then_parts_then_defaults() -> None:
    inner = {"size": 3, "kind": "A"}

    assert example_of(Outer) == {
        "inner": inner,
        "maybe": inner,
        "rows": [inner],
        "silent_rows": [],
        "flag": False,
        "given": {"size": 9},
    }
    assert Outer.model_validate(example_of(Outer)).inner.size == 3
