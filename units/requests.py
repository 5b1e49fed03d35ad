"""Request bodies of the GPU unit and stock routes. Pure."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError
from typing_extensions import override

from gpuplatform.errors import FieldError
from gpuplatform.formats.model import SpecModel, invalid_spec
from gpuplatform.formats.request import ChangeBody, DnsLabel, OperationBody, OwnName
from gpuplatform.workloads.function_worker import Serverless
from gpuplatform.workloads.resources import ResourceName, Resources
from gpuplatform.workloads.template import MAX_REPLICAS, Gpu, Image, Memory, SpecName, Template
from units.core.groups import MAX_SIZE, MIN_SIZE, GroupName, check_variables
from units.core.spec import (
    Access,
    Cpu,
    GPUUnitSpec,
    Preemptible,
    Priority,
    access_error,
    without_empty_blocks,
)

UnitName = Annotated[
    OwnName,
    Field(
        description="Name of the unit: a DNS label of at most 58 characters.",
        examples=["trainer"],
    ),
]
AccessBlock = Annotated[Access, Field(description="Settings of the access URL.")]

MAX_WAIT_SECONDS: Final = 7 * 24 * 3600
"""Maximum time in seconds for which a request can wait for stock: 7 days."""

_ENVELOPE = frozenset(
    {"specName", "cpu", "memory", "gpu", "resourceName", "resources", "placement"}
)
_REQUESTED = frozenset(
    {"image", "template", "access", "serverless", "group", "priority", "preemptible"}
)


class Wait(SpecModel):
    """The wait of a request for stock."""

    max_seconds: int = Field(
        alias="maxSeconds",
        ge=1,
        le=MAX_WAIT_SECONDS,
        description="Maximum time in the queue.",
        examples=[3600],
    )

    @property
    def duration(self) -> timedelta:
        """The maximum duration of the wait."""
        return timedelta(seconds=self.max_seconds)


WaitBlock = Annotated[
    Wait,
    Field(description="Wait in the queue of the GPU spec if no stock is ready."),
]


class UnitFields(SpecModel):
    """The requested part of the spec of a unit. Its stock unit determines the rest."""

    spec_name: SpecName = Field(alias="specName", description="Name of the GPU spec of the unit.")
    image: Image = Field(description="Container image of the unit.")
    template: Template | None = None
    access: AccessBlock | None = None

    @model_validator(mode="after")
    def primary_port_exists(self) -> Self:
        """Reject a primary port that is not a port of the template."""
        error = access_error(self.access, self.template)
        if error:
            raise ValidationError.from_exception_data(
                "access",
                [
                    InitErrorDetails(
                        type=PydanticCustomError("access", "{why}", {"why": error.message}),
                        loc=("access", "primaryPort"),
                        input=self.access,
                    )
                ],
            )
        return self


class CapacityBody(OperationBody):
    """The part of a request body that determines its place in the queue of a GPU spec."""

    wait: WaitBlock | None = None
    priority: Priority = 0

    def check_priority(self, most: int) -> None:
        """Reject a priority above `most`, the limit of the tenant.

        Raises:
            InvalidSpec: If the priority exceeds the limit.
        """
        if self.priority > most:
            message = f"Must be at most {most}, which is the limit of the tenant."
            raise invalid_spec([FieldError("priority", message)])


class GpuUnitCreate(UnitFields, CapacityBody):
    """The request body that creates a GPU unit that consumes a ready stock unit of a GPU spec."""

    name: UnitName
    namespace: DnsLabel | None = Field(
        default=None,
        description="Namespace of the unit. Must be the namespace of the caller's tenant, which is"
        " also the default.",
        examples=["runtime-instance"],
    )
    stock_name: OwnName | None = Field(
        default=None,
        alias="stockName",
        description="Name of the stock unit to claim. Defaults to the oldest ready stock unit of"
        " the GPU spec.",
    )
    stock_namespace: Literal["runtime-stock"] | None = Field(
        default=None,
        alias="stockNamespace",
        description="Namespace of the stock unit. Must be `runtime-stock`, which is also the"
        " default.",
    )
    preemptible: Preemptible = False

    @model_validator(mode="after")
    def named_stock_is_not_awaited(self) -> "GpuUnitCreate":
        """Reject a wait for a named stock unit, which can be deleted at any time."""
        if self.wait and self.stock_name:
            msg = "wait cannot be combined with stockName."
            raise ValueError(msg)
        return self

    def check_namespace(self, allowed: str) -> None:
        """Reject a namespace other than `allowed`, the namespace of the tenant.

        Raises:
            InvalidSpec: If the request specifies another namespace.
        """
        if self.namespace not in {None, allowed}:
            raise invalid_spec([FieldError("namespace", f"Must be '{allowed}' or omitted.")])

    def spec(self, stock: GPUUnitSpec) -> GPUUnitSpec:
        """Return the spec of the unit: the size of its stock unit and the requested fields."""
        return _spec_on(stock, self.payload())

    @override
    def payload(self) -> dict[str, Any]:
        """Return the fields that are stored and hashed, without the fixed namespaces.

        An explicit primary port is kept, so that a later change of the ports does not change the
        access URL.
        """
        payload = super().payload()
        for key in ("namespace", "stockNamespace"):
            payload.pop(key, None)
        return without_empty_blocks(payload)


def _spec_on(stock: GPUUnitSpec, requested: Mapping[str, Any]) -> GPUUnitSpec:
    envelope = {k: v for k, v in stock.normalised().items() if k in _ENVELOPE}
    fields = {k: v for k, v in requested.items() if k in _REQUESTED}
    return GPUUnitSpec.parse({**envelope, **fields})


class UnitGroupCreate(CapacityBody):
    """The request body that creates a group of GPU units: all of them get stock, or none."""

    name: GroupName
    size: int = Field(
        ge=MIN_SIZE, le=MAX_SIZE, description="Number of units of the group.", examples=[4]
    )
    unit: Annotated[UnitFields, Field(description="Fields of each unit.")]

    @model_validator(mode="after")
    def group_variables_are_free(self) -> Self:
        """Reject variables that the platform sets in the units of a group."""
        check_variables(self.unit.template, "unit", "template")
        return self

    def spec(self, rank: int, stock: GPUUnitSpec) -> GPUUnitSpec:
        """Return the spec of the unit with this rank, with the size of its stock unit."""
        place = {"name": self.name, "rank": rank, "size": self.size}
        fields = {"group": place, "priority": self.priority}
        return _spec_on(stock, {**self.payload()["unit"], **fields})

    @override
    def payload(self) -> dict[str, Any]:
        """Return the fields that are stored and hashed, without empty blocks of the units."""
        payload = super().payload()
        return {**payload, "unit": without_empty_blocks(payload["unit"])}


class WorkerUnitCreate(GpuUnitCreate):
    """The request body that creates a worker of a function. No route accepts it."""

    serverless: Serverless


class GpuUnitUpdate(ChangeBody):
    """The request body that changes a GPU unit. Omitted fields are unchanged."""

    image: Image | None = Field(default=None, description="Container image of the unit.")
    template: Template | None = None
    access: AccessBlock | None = None

    def applied_to(self, spec: Mapping[str, Any]) -> GPUUnitSpec:
        """Return a stored spec with the specified fields replaced; an empty block is a value.

        The stored spec can violate rules if the change replaces the invalid fields.

        Raises:
            InvalidSpec: If the result violates a rule.
        """
        changed = GPUUnitSpec.parse({**spec, **self.payload()})
        error = access_error(changed.access, changed.template)
        if error:
            raise invalid_spec([error])
        return changed


def create_body(payload: Mapping[str, Any], operation_id: str, name: str) -> GpuUnitCreate:
    """Return the body of an accepted creation. Only workers have the block `serverless`."""
    model = WorkerUnitCreate if "serverless" in payload else GpuUnitCreate
    return model.parse({**payload, "operationID": operation_id, "name": name})


class UnitAction(OperationBody):
    """The request body of an action without parameters, such as a stop or a cordon."""


class UnitStart(OperationBody):
    """The request body that starts a GPU unit."""

    wait: (
        Annotated[Wait, Field(description="Wait in the queue. The default is 10 minutes.")] | None
    ) = None


_CHECKED = ("cpu", "memory", "gpu", "resourceName", "resources")


def _without_examples(schema: dict[str, Any]) -> None:
    """Remove the examples of the optional values, which must equal the values of the spec."""
    for name in _CHECKED:
        schema["properties"][name].pop("examples", None)


class StockSeed(OperationBody):
    """The request body that seeds a number of stock units of a GPU spec."""

    model_config = ConfigDict(json_schema_extra=_without_examples)

    spec_name: SpecName = Field(
        alias="specName",
        description="Name of the GPU spec of the stock units, which must be in the catalogue. The"
        " other values, if specified, must equal the values of the GPU spec.",
    )
    cpu: Cpu | None = None
    memory: Memory | None = None
    gpu: Gpu | None = None
    resource_name: ResourceName | None = Field(default=None, alias="resourceName")
    resources: Resources | None = None
    replicas: int = Field(
        ge=1, le=MAX_REPLICAS, description="Number of stock units to create.", examples=[2]
    )
