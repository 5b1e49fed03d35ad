"""Declarations of what operators do to rows: actions and the creation of rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuplatform.adminkit.actions.forms import DeclaredForm

Values = Mapping[str, Any]
"""The values of a form, by the API's field names."""


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """One row's part of a confirmed action."""

    row: Any
    operation_id: str
    values: Values


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The result for one row."""

    text: str
    url: str = ""
    """The page of the accepted operation; empty where the action is done."""
    is_replay: bool = False
    """Whether the same request was accepted before."""


@dataclass(frozen=True, slots=True)
class Action:
    """An action of operators on rows."""

    name: str
    label: str
    consequence: Callable[[Sequence[Any], Values], str]
    """Returns the effect on these rows, with numbers."""
    service: Callable[[ActionRequest], ActionResult]
    """Performs the action; raises a `PlatformError` that explains a refusal."""
    obstacle: Callable[[Any], str] = lambda _: ""
    """Returns why the action is not possible for a row, as a sentence; empty where it is."""
    form: type[DeclaredForm] | None = None
    initial: Callable[[Any], Values] = lambda _: {}
    """Returns the initial values of the form for a row."""
    permission: str = ""
    """The verb of the permission: `scale` on pools is `scale_stockpool`; empty: the name."""
    is_final: bool = False
    """Whether it deletes something that cannot be restored."""
    is_of_one: bool = False
    """Whether it applies to a single row only."""
    button: str = ""
    """The label of the last button, where the action's label would be ambiguous."""


@dataclass(frozen=True, slots=True)
class Creation:
    """The creation of rows."""

    form: type[DeclaredForm]
    title: str
    service: Callable[[str, Values], tuple[ActionResult, Any]]
    """Takes the operationID and the values; returns the result and the (first) new row."""


def counted(number: int, noun: str, singular: str = "", plural: str = "") -> str:
    """Return a number with its noun and a verb: `1 GPU is`, `2 GPUs are`."""
    name, verb = (noun, singular) if number == 1 else (f"{noun}s", plural)
    return f"{number} {name} {verb}".rstrip()
