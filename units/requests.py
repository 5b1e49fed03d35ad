"""Request bodies of the GPU unit and stock routes. Pure."""

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError
from typing_extensions import override

from gpuplatform.errors import FieldError
from gpuplatform.formats.model import invalid_spec
from gpuplatform.formats.request import ChangeBody, DnsLabel, OperationBody, OwnName
from gpuplatform.workloads.function_worker import Serverless
from gpuplatform.workloads.template import MAX_REPLICAS, Gpu, Image, Memory, SpecName, Template
from units.core.spec import Access, Cpu, GPUUnitSpec, access_error, without_empty_blocks

UnitName = Annotated[
    OwnName,
    Field(
        description="Name of the unit: a DNS label of at most 58 characters.",
        examples=["trainer"],
    ),
]
AccessBlock = Annotated[Access, Field(description="Settings of the access URL.")]

_ENVELOPE = frozenset({"specName", "cpu", "memory", "gpu", "placement"})
_REQUESTED = frozenset({"image", "template", "access", "serverless"})


class GpuUnitCreate(OperationBody):
    """The request body that creates a GPU unit that consumes a ready stock unit of a GPU spec."""

    name: UnitName
    namespace: DnsLabel | None = Field(
        default=None,
        description="Namespace of the unit. Must be the namespace of the caller's tenant, which is"
        " also the default.",
        examples=["runtime-instance"],
    )
    spec_name: SpecName = Field(alias="specName", description="Name of the GPU spec of the unit.")
    stock_name: UnitName | None = Field(
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
    image: Image = Field(description="Container image of the unit.")
    template: Template | None = None
    access: AccessBlock | None = None

    @model_validator(mode="after")
    def primary_port_exists(self) -> "GpuUnitCreate":
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

    def check_namespace(self, allowed: str) -> None:
        """Reject a namespace other than `allowed`, the namespace of the tenant.

        Raises:
            InvalidSpec: If the request specifies another namespace.
        """
        if self.namespace not in {None, allowed}:
            raise invalid_spec([FieldError("namespace", f"Must be '{allowed}' or omitted.")])

    def spec(self, stock: GPUUnitSpec) -> GPUUnitSpec:
        """Return the spec of the unit: the size of its stock unit and the requested fields."""
        envelope = {k: v for k, v in stock.normalised().items() if k in _ENVELOPE}
        requested = {k: v for k, v in self.payload().items() if k in _REQUESTED}
        return GPUUnitSpec.parse({**envelope, **requested})

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


class WorkerUnitCreate(GpuUnitCreate):
    """The request body that creates a worker of a function. No route accepts it."""

    serverless: Serverless


class GpuUnitUpdate(ChangeBody):
    """The request body that changes a GPU unit. Omitted fields are unchanged."""

    image: Image | None = Field(default=None, description="Container image of the unit.")
    template: Template | None = None
    access: AccessBlock | None = None

    def applied_to(self, spec: GPUUnitSpec) -> GPUUnitSpec:
        """Return `spec` with the specified fields replaced; an empty block is a value.

        Raises:
            InvalidSpec: If the primary port is not a port of the template.
        """
        changed = GPUUnitSpec.parse({**spec.normalised(), **self.payload()})
        error = access_error(changed.access, changed.template)
        if error:
            raise invalid_spec([error])
        return changed


class UnitAction(OperationBody):
    """The request body that stops or starts a GPU unit."""


class StockSeed(OperationBody):
    """The request body that seeds a number of stock units of a GPU spec."""

    spec_name: SpecName = Field(
        alias="specName",
        description="Name of the GPU spec of the stock units. An unknown GPU spec is added to the"
        " catalogue with the values of this request.",
    )
    cpu: Cpu | None = None
    memory: Memory | None = None
    gpu: Gpu | None = None
    replicas: int = Field(
        ge=1, le=MAX_REPLICAS, description="Number of stock units to create.", examples=[2]
    )
