"""Declarations of the actions of operators on rows, and of the creation of rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from gpuplatform.adminkit.actions.forms import OPERATION_ID, DeclaredForm
from gpuplatform.adminkit.lists.form_values import Changed
from gpuplatform.formats.model import SpecModel

Values = Mapping[str, Any]
"""The values of a form by the field names of the API."""

Body = TypeVar("Body", bound=SpecModel)


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """The request to perform an action on one row, or to create a row."""

    row: Any
    """The row, or `None` if the action creates an object."""
    operation_id: str
    values: Values

    def parse(self, declaration: type[Body], **fixed: Any) -> Body:
        """Return the body of the API request with the values, `fixed` and the operationID."""
        return declaration.parse({**self.values, **fixed, OPERATION_ID: self.operation_id})


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The result of an action on one row."""

    text: str
    url: str = ""
    """The URL of the accepted operation, or an empty string if the action created none."""
    is_replay: bool = False
    """Whether the same request was already accepted."""
    changed: Changed | None = None
    """The earlier and the new values, if the action changed some without an operation."""


@dataclass(frozen=True, slots=True)
class Action:
    """An action that operators perform on rows."""

    name: str
    label: str
    consequence: Callable[[Sequence[Any], Values], str]
    """Returns a description of the effects on the rows, with numbers."""
    service: Callable[[ActionRequest], ActionResult]
    """Performs the action; raises a `PlatformError` if the action is rejected."""
    obstacle: Callable[[Any], str] = lambda _: ""
    """Returns a sentence with the reason that prevents the action on a row, or an empty string."""
    form: type[DeclaredForm] | None = None
    initial: Callable[[Any], Values] = lambda _: {}
    """Returns the initial values of the form for a row."""
    permission: str = ""
    """The verb of the required permission; the default is the name of the action.

    The permission of the verb `scale` on pools is `scale_stockpool`.
    """
    is_final: bool = False
    """Whether the action deletes something that cannot be restored."""
    is_of_one: bool = False
    """Whether the action applies to a single row only."""
    is_direct: bool = False
    """Whether the service writes rows without an operation, in the transaction of its entry."""
    button: str = ""
    """The label of the confirmation button; the default is the label of the action."""


@dataclass(frozen=True, slots=True)
class Creation:
    """The declaration of how operators create rows."""

    form: type[DeclaredForm]
    title: str
    service: Callable[[ActionRequest], tuple[ActionResult, Any]]
    """Creates rows; returns the result and the first of them."""
    consequence: Callable[[Values], str] = lambda _: ""
    """Returns a description of the effects, with numbers, that a user has to confirm. If it is
    empty, no confirmation is required."""
