"""Groups of GPU units that get their stock together, all units or none. Pure.

A group has no resource: each of its units has the block `group` in its spec, and owns the Service
that resolves its address, so that an address exists as long as its unit.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from gpuplatform.formats import names
from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.text import quoted
from gpuplatform.formats.validations import cel
from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import GROUP
from gpuplatform.workloads.template import PodTemplate
from units.phases import UnitPhase

GROUP_LABEL: Final = f"{GROUP}/group"
"""Label of a unit, and of its objects, with the name of its group."""

MIN_SIZE: Final = 2
MAX_SIZE: Final = 64
NAME_MAX: Final = names.OWN_NAME_MAX - len(f"-{MAX_SIZE - 1}")
"""Maximum length of the name of a group, which is the prefix of the names of its units."""

VARIABLES: Final = ("GROUP_NAME", "GROUP_RANK", "GROUP_SIZE", "GROUP_MASTER")
"""The environment variables of a unit of a group. Other units can use these names."""


def _group_name(name: str) -> str:
    return names.dns_label(name, max_length=NAME_MAX)


GroupName = Annotated[
    str,
    AfterValidator(_group_name),
    Field(
        json_schema_extra={"pattern": f"^{names.DNS_LABEL}$", "maxLength": NAME_MAX},
        description=f"Name of the group: a DNS label of at most {NAME_MAX} characters.",
        examples=["training"],
    ),
]


class Group(SpecModel):
    """The place of a unit in a group of units."""

    name: GroupName
    rank: int = Field(
        ge=0, le=MAX_SIZE - 1, description="Rank of the unit in its group, from 0.", examples=[0]
    )
    size: int = Field(
        ge=MIN_SIZE, le=MAX_SIZE, description="Number of units of the group.", examples=[4]
    )

    @model_validator(mode="after")
    def rank_is_below_size(self) -> Self:
        """Reject a rank that the group does not have."""
        if self.rank >= self.size:
            error = PydanticCustomError("rank", "Must be less than size.")
            place = InitErrorDetails(type=error, loc=("rank",), input=self.rank)
            raise ValidationError.from_exception_data("Group", [place])
        return self


GROUP_RULES: Final = (
    cel(
        "has(self.group) == has(oldSelf.group)"
        " && (!has(self.group) || self.group == oldSelf.group)",
        "group cannot be changed.",
        field_path=".group",
    ),
    cel(
        "!has(self.group) || self.group.rank < self.group.size",
        "Must be less than size.",
        field_path=".group.rank",
    ),
    cel(
        "!has(self.group) || !has(self.template) || !has(self.template.envs)"
        " || self.template.envs.all(e, !(e.name in"
        f" [{', '.join(repr(name) for name in VARIABLES)}]))",
        "The platform sets the GROUP variables of a group. Choose another name.",
        field_path=".template.envs",
    ),
)
"""The rules of a spec with the block `group`, for the API server."""


def check_variables(template: PodTemplate | None, *place: str | int) -> None:
    """Reject a variable of the template that the platform sets in the units of a group.

    `place` is the path of the template in the model that is validated.

    Raises:
        ValidationError: If the template has such a variable.
    """
    for index, variable in enumerate(template.envs if template else ()):
        if variable.name in VARIABLES:
            why = f"{quoted(variable.name)} is set in the units of a group. Choose another name."
            error = PydanticCustomError("group_variable", "{why}", {"why": why})
            loc = (*place, "envs", index, "name")
            at = InitErrorDetails(type=error, loc=loc, input=variable.name)
            raise ValidationError.from_exception_data("Group", [at])


def member_name(group: str, rank: int) -> str:
    """Return the name of the unit of a group with a rank, which is also its hostname."""
    return f"{group}-{rank}"


def group_columns(spec: Any) -> dict[str, Any]:
    """Return the database columns of a unit that a spec implies, which any client can write."""
    name, rank = field(spec, "group", "name"), field(spec, "group", "rank")
    is_valid = isinstance(name, str) and type(rank) is int and 0 <= rank < MAX_SIZE
    return {
        "group_name": str(name)[: names.LABEL_MAX] if is_valid else "",
        "group_rank": rank if is_valid else None,
    }


def group_phase(phases: Sequence[str], size: int, *, is_changing: bool = False) -> UnitPhase:
    """Return the phase of a group of `size` units, from the phases of those that exist.

    The group does not run without a unit that a drain has stopped. `is_changing` is whether the
    group is being stopped or started, so that a part of its units is stopped for a short time.
    """
    found = set(phases)
    if UnitPhase.TERMINATING in found:
        return UnitPhase.TERMINATING
    if UnitPhase.FAILED in found or len(phases) < size:
        return UnitPhase.FAILED
    if len(found) == 1:
        return UnitPhase(found.pop())
    if UnitPhase.STOPPED in found and not is_changing:
        return UnitPhase.FAILED
    if found == {UnitPhase.READY, UnitPhase.SUCCEEDED}:
        return UnitPhase.READY
    return UnitPhase.PROGRESSING
