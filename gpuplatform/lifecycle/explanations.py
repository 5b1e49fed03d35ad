"""What the words of a state mean and what a person does about them; each is said once.

An app declares them beside its phases and reasons. The admin shows them, and `docs/reasons.md` is
made from them. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

ReasonT = TypeVar("ReasonT", bound=str)


@dataclass(frozen=True, slots=True)
class Explanation:
    """A sentence that says when a reason is given, and one that says what to do."""

    meaning: str
    next_step: str


def next_steps(reasons: Mapping[ReasonT, Explanation]) -> MappingProxyType[ReasonT, str]:
    """Return what a person does next, by reason."""
    return MappingProxyType({reason: said.next_step for reason, said in reasons.items()})
