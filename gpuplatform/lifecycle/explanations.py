"""What reasons and causes mean, and what a person does about them; each is declared once.

An app declares them next to its phases and reasons. The admin shows them, and `docs/reasons.md` is
generated from them. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

ReasonT = TypeVar("ReasonT", bound=str)


@dataclass(frozen=True, slots=True)
class Explanation:
    """When a reason is given, and what to do then."""

    meaning: str
    next_step: str
    title: str = ""
    """What people see in place of the value; empty: the value in words."""
    is_well: bool = False
    """Whether the reason is given while nothing is wrong."""
    causes: "Mapping[str, Explanation]" = field(default_factory=dict)
    """The causes that the reason stands for, where it has more than one."""


def next_steps(reasons: Mapping[ReasonT, Explanation]) -> MappingProxyType[ReasonT, str]:
    """Return what a person does next, by reason."""
    return MappingProxyType({reason: found.next_step for reason, found in reasons.items()})
