"""Query parameters and response fields that the routes of all custom resources have."""

from datetime import datetime
from functools import partial
from typing import Annotated, Any, Self, TypeVar

from django.db.models import QuerySet
from pydantic import AliasGenerator, AliasPath, BeforeValidator, ConfigDict, Field

from gpuplatform.api.conditions import ConditionReply, conditions_of
from gpuplatform.api.query import PageQuery, Several, Word
from gpuplatform.api.schema import NullIfEmpty, Reply, SchemaOf, api_alias, conforming_block
from gpuplatform.reconciliation.models import MirrorRow
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.placement import Placement
from gpuplatform.workloads.resources import resource_in

RowT = TypeVar("RowT", bound=MirrorRow)


def _amounts(value: object) -> dict[str, str] | None:
    found = value if isinstance(value, dict) else {}
    return {str(name): str(amount) for name, amount in found.items()} or None


Message = Annotated[
    str,
    Field(description="Human-readable explanation of the phase.", examples=["The pod is ready."]),
]
Cause = Annotated[
    StartupCause | None,
    NullIfEmpty,
    Field(
        description="Code of the problem that prevents a pod from starting or becoming ready;"
        " null if no pod has a problem."
    ),
]


ResourceNameText = Annotated[
    str, BeforeValidator(lambda name: resource_in({"resourceName": name}))
]
"""The resource that `gpu` counts in a spec, which any client of the cluster may have written."""
ResourceAmounts = Annotated[dict[str, str] | None, BeforeValidator(_amounts)]
"""The further resources of a spec; null if there are none, or if another client wrote no map."""
PlacementBlock = Annotated[
    Annotated[dict[str, Any], SchemaOf(Placement)] | None,
    BeforeValidator(partial(conforming_block, Placement)),
]
"""The placement of a spec; null if it is absent, or if another client wrote another value."""


def without_default(schema: dict[str, Any]) -> None:
    """Remove the default of a field from its schema: `json_schema_extra` of a field."""
    schema.pop("default", None)


def path_field(*path: str, default: Any = None, **options: Any) -> Any:
    """Return the `Field` of a response that is read from `path` of a row, or is `default`."""
    return Field(
        default=default,
        validation_alias=AliasPath(*path),
        json_schema_extra=without_default,
        **options,
    )


class ResourcesQuery(PageQuery):
    """A filter by phase, reason, GPU spec and name."""

    phase: Several[str] = Field(default=(), description="Return only resources in these phases.")
    reason: Several[Word] = Field(
        default=(), description="Return only resources with these reasons."
    )
    spec_name: Several[Word] = Field(
        default=(), alias="specName", description="Return only resources of these GPU specs."
    )
    search: str | None = Field(
        default=None,
        max_length=63,
        description="Return only resources whose name contains this text, ignoring case.",
    )

    def applied_to(self, rows: QuerySet[RowT]) -> QuerySet[RowT]:
        """Return the rows that match all filters."""
        wanted = {
            "phase__in": self.phase,
            "reason__in": self.reason,
            "spec_name__in": self.spec_name,
            "name__icontains": self.search,
        }
        return rows.filter(**{key: value for key, value in wanted.items() if value})


class ResourceReply(Reply):
    """Name, status and metadata of a custom resource, read from its mirror row."""

    # Rows have no attributes with JSON names. A failed search for each field of each row would
    # take about a sixth of the validation.
    model_config = ConfigDict(alias_generator=AliasGenerator(serialization_alias=api_alias))

    name: str = Field(description="Name of the resource.")
    namespace: str = Field(description="Namespace of the resource.")
    spec_name: str = Field(description="Name of the GPU spec.", examples=["h100-1g"])
    is_spec_catalogued: bool = Field(
        alias="specCatalogued",
        description="Whether the catalogue has the GPU spec. False if it was deleted, or if"
        " another client of the cluster named it.",
        examples=[True],
    )
    phase: str = Field(description="Summary of the state of the resource.")
    reason: str = Field(description="Code that explains the phase.")
    message: Message
    cause: Cause
    conditions: Annotated[list[ConditionReply], BeforeValidator(conditions_of)] = Field(
        description="Conditions of the resource."
    )
    generation: int = Field(description="Generation of the spec.", examples=[1])
    observed_generation: int = Field(
        description="Generation of the spec that the phase and the conditions describe.",
        examples=[1],
    )
    uid: Annotated[str | None, NullIfEmpty] = Field(
        description="UID of the resource; null until the resource exists.",
        examples=["1f0e5f2c-8c5e-4d0b-9a57-3f3f0f6f7a10"],
    )
    created_at: datetime = Field(description="Time at which the creation was accepted.")
    deletion_timestamp: datetime | None = Field(
        validation_alias="deletion_requested_at",
        description="Time at which the deletion was accepted; null if no deletion was accepted.",
    )
    last_sync_time: datetime | None = Field(
        validation_alias="last_sync_at",
        description="Time at which the resource was last copied from the cluster; null if it was"
        " never copied.",
    )
    operation_id: str | None = path_field(
        "operation",
        "operation_id",
        description="operationID of the operation that created the resource; null if the resource"
        " was created with kubectl.",
        examples=["request-1"],
    )

    @classmethod
    def of(cls, row: Any) -> Self:
        """Return the response for a mirror row."""
        return cls.model_validate(row)
