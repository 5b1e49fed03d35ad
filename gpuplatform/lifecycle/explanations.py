"""Explanations of reasons and causes: the meaning and the next step. Pure.

Each app declares them with its reasons. The admin displays them, and `docs/reasons.md` contains
them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, Self, TypeVar

ExplainedT = TypeVar("ExplainedT", bound="ExplainedReason")


@dataclass(frozen=True, slots=True)
class Explanation:
    """The meaning of a reason or cause, and the recommended next step."""

    meaning: str
    next_step: str
    title: str = ""
    """Displayed title. If it is empty, the title is derived from the value."""
    is_well: bool = False
    """Whether the reason describes a normal state."""
    causes: "Mapping[str, Explanation]" = field(default_factory=dict)
    """Explanations of the causes of the reason, by cause."""


class Declared(NamedTuple):
    """A value and its explanation that several `ExplainedReason` enums share."""

    value: str
    explanation: Explanation


class ExplainedReason(StrEnum):
    """Base class of enums whose members are declared with explanations."""

    explanation: Explanation

    def __new__(cls, value: str, explanation: Explanation) -> Self:
        """Return a member with the value and the explanation."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.explanation = explanation
        return member


def explanations(reasons: type[ExplainedT]) -> Mapping[ExplainedT, Explanation]:
    """Return the explanations of all members, by member."""
    return MappingProxyType({reason: reason.explanation for reason in reasons})
