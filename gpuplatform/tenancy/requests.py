"""The bodies of changes of tenants. Pure."""

from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from gpuplatform.formats.priority import MAX_PRIORITY
from gpuplatform.formats.request import OperationBody
from gpuplatform.tenancy.resources import (
    HIGHEST_LIMIT,
    LIMIT_NAMES,
    MAX_LIMITS,
    Resource,
    limit_error,
    spec_resource,
)


class PriorityLimit(OperationBody):
    """The change of the priority limit of a tenant."""

    max_priority: int = Field(
        alias="maxPriority",
        ge=0,
        le=MAX_PRIORITY,
        description="Largest priority that requests of the tenant may have in the capacity queue.",
        examples=[0],
    )


def _checked(limits: dict[str, int]) -> dict[str, int]:
    """Reject limits of unknown resources; return the others sorted by name."""
    errors = [
        InitErrorDetails(
            type=PydanticCustomError("limit", "{why}", {"why": why}), loc=(name,), input=hard
        )
        for name, hard in limits.items()
        if (why := limit_error(name, hard))
    ]
    if errors:
        raise ValidationError.from_exception_data("limits", errors)
    return dict(sorted(limits.items()))


Limits = Annotated[dict[str, int], Field(max_length=MAX_LIMITS), AfterValidator(_checked)]


class TenantLimitsBody(OperationBody):
    """The request body that replaces all limits of a tenant."""

    limits: Limits = Field(
        description=f"All limits by resource: {LIMIT_NAMES}. A resource that is absent is not"
        " limited.",
        examples=[{Resource.GPUS.value: 8, Resource.UNITS.value: 20}],
    )


def _of_specs(limits: dict[str, int]) -> dict[str, int]:
    _checked({spec_resource(name): hard for name, hard in limits.items()})
    return limits


_Limit = Annotated[int, Field(ge=0, le=HIGHEST_LIMIT)]


class TenantLimitsForm(OperationBody):
    """The form of the limits of a tenant. A resource with an empty field is not limited."""

    gpus: _Limit | None = Field(default=None, description="GPUs of all units.")
    units: _Limit | None = Field(
        default=None, description="Units, workers of functions and waiting units included."
    )
    functions: _Limit | None = Field(default=None, description="Functions.")
    workers: _Limit | None = Field(default=None, description="Workers of all functions.")
    open_invocations: _Limit | None = Field(
        default=None, alias="openInvocations", description="Invocations that have not ended."
    )
    open_operations: _Limit | None = Field(
        default=None, alias="openOperations", description="Operations that have not ended."
    )
    tokens: _Limit | None = Field(default=None, description="Valid API tokens.")
    specs: Annotated[dict[str, int], AfterValidator(_of_specs)] | None = Field(
        default=None,
        description="GPUs by the name of the GPU spec.",
        examples=[{"h100-1g": 4}],
    )

    def limits(self) -> dict[str, int]:
        """Return the limits by resource."""
        found = {name: hard for name, hard in self.payload().items() if name != "specs"}
        found |= {spec_resource(name): hard for name, hard in (self.specs or {}).items()}
        return dict(sorted(found.items()))
