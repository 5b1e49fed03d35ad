"""What reasons and causes mean, and what a person does about them; each is declared once.

An app declares them with its reasons. The admin shows them, and `docs/reasons.md` is generated
from them. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, Self, TypeVar

ReasonT = TypeVar("ReasonT", bound=str)
ExplainedT = TypeVar("ExplainedT", bound="ExplainedReason")


@dataclass(frozen=True, slots=True)
class Explanation:
    """When a reason is given, and what to do then."""

    meaning: str
    next_step: str
    title: str = ""
    """What people see instead of the value; empty: derived from the value."""
    is_well: bool = False
    """Whether the reason is given while nothing is wrong."""
    causes: "Mapping[str, Explanation]" = field(default_factory=dict)
    """The causes of the reason, where it has more than one."""


class Declared(NamedTuple):
    """A value of an `ExplainedReason` that several enums have."""

    value: str
    explanation: Explanation


class ExplainedReason(StrEnum):
    """Base of reasons that are declared with their explanations."""

    explanation: Explanation

    def __new__(cls, value: str, explanation: Explanation) -> Self:
        """Return the member of that value."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.explanation = explanation
        return member


def explanations(reasons: type[ExplainedT]) -> Mapping[ExplainedT, Explanation]:
    """Return the explanations of all reasons, by reason."""
    return MappingProxyType({reason: reason.explanation for reason in reasons})


def next_steps(reasons: Mapping[ReasonT, Explanation]) -> MappingProxyType[ReasonT, str]:
    """Return what a person does next, by reason."""
    return MappingProxyType({reason: found.next_step for reason, found in reasons.items()})
