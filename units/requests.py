"""The bodies of the routes of GPU units and stock: the declared spec plus the request's fields."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from gpuplatform.errors import FieldError
from gpuplatform.formats import names
from gpuplatform.formats.model import SpecModel, invalid_spec
from gpuplatform.formats.operation_id import OperationID
from gpuplatform.workloads.function_worker import Serverless
from gpuplatform.workloads.template import MAX_REPLICAS, Gpu, Image, Memory, SpecName, Template
from units.core.spec import (
    Access,
    Cpu,
    GPUUnitSpec,
    access_fault,
    port_fault,
    without_empty_blocks,
)


def _own_name(name: str) -> str:
    return names.dns_label(name, max_length=names.OWN_NAME_MAX)


UnitName = Annotated[
    str,
    AfterValidator(_own_name),
    Field(
        json_schema_extra={"pattern": f"^{names.DNS_LABEL}$", "maxLength": names.OWN_NAME_MAX},
        description="Name of the unit: a DNS label of at most 58 characters.",
        examples=["trainer"],
    ),
]
AccessBlock = Annotated[Access, Field(description="How the unit is reached.")]
_LABEL: dict[str, Any] = {"pattern": f"^{names.DNS_LABEL}$", "maxLength": names.LABEL_MAX}

_ENVELOPE = frozenset({"specName", "cpu", "memory", "gpu", "placement"})
_REQUESTED = frozenset({"image", "template", "access", "serverless"})


class GpuUnitCreate(SpecModel):
    """Creates a GPU unit on a ready stock unit of a GPU spec."""

    operation_id: OperationID = Field(alias="operationID")
    name: UnitName
    namespace: Annotated[str, AfterValidator(names.dns_label)] | None = Field(
        default=None,
        json_schema_extra=_LABEL,
        description="Namespace of the caller's tenant, which is the default and the only one.",
        examples=["runtime-instance"],
    )
    spec_name: SpecName = Field(alias="specName", description="GPU spec of the unit.")
    stock_name: UnitName | None = Field(
        default=None,
        alias="stockName",
        description="Name of the stock unit to claim; by default the oldest ready one.",
    )
    stock_namespace: Literal["runtime-stock"] | None = Field(
        default=None,
        alias="stockNamespace",
        description="Namespace of all stock, which is the default and the only one.",
    )
    image: Image = Field(description="Container image of the unit.")
    template: Template | None = None
    access: AccessBlock | None = None

    @model_validator(mode="after")
    def access_fits_the_ports(self) -> "GpuUnitCreate":
        """Refuse a primary port that would fail the unit with `AccessConfigInvalid`."""
        fault = port_fault(self.access, self.template)
        if fault:
            raise ValidationError.from_exception_data(
                "access",
                [
                    InitErrorDetails(
                        type=PydanticCustomError("access", "{why}", {"why": fault.message}),
                        loc=("access", "primaryPort"),
                        input=self.access,
                    )
                ],
            )
        return self

    def check_namespace(self, applies: str) -> None:
        """Refuse a namespace other than the tenant's.

        Raises:
            InvalidSpec: it is another one.
        """
        if self.namespace not in {None, applies}:
            fault = FieldError("namespace", f"Must be '{applies}' or omitted.")
            raise invalid_spec([fault])

    def spec(self, stock: GPUUnitSpec) -> GPUUnitSpec:
        """Return the spec of the unit: the size of its stock and the fields of the request."""
        envelope = {k: v for k, v in stock.normalised().items() if k in _ENVELOPE}
        requested = {k: v for k, v in self.payload().items() if k in _REQUESTED}
        return GPUUnitSpec.parse({**envelope, **requested})

    def payload(self) -> dict[str, Any]:
        """Return the payload of the request hash: without operationID and implied fields.

        An explicit primary port stays, so that a later change of the ports does not move it.
        """
        payload = self.normalised()
        for key in ("operationID", "namespace", "stockNamespace"):
            payload.pop(key, None)
        return without_empty_blocks(payload)


class WorkerUnitCreate(GpuUnitCreate):
    """Creates a unit that is a worker of a function. No route accepts it."""

    serverless: Serverless


class GpuUnitUpdate(SpecModel):
    """Changes a GPU unit: a given field replaces, an omitted one stays."""

    operation_id: OperationID = Field(alias="operationID")
    image: Image | None = Field(default=None, description="Container image of the unit.")
    template: Template | None = None
    access: AccessBlock | None = None

    @model_validator(mode="after")
    def changes_something(self) -> "GpuUnitUpdate":
        """Refuse an operation that changes nothing."""
        if self.image is None and self.template is None and self.access is None:
            msg = "Give at least one of image, template and access."
            raise ValueError(msg)
        return self

    def payload(self) -> dict[str, Any]:
        """Return the given fields without the operationID; an empty block replaces."""
        payload = self.normalised()
        del payload["operationID"]
        return payload

    def applied_to(self, spec: GPUUnitSpec) -> GPUUnitSpec:
        """Return `spec` with the given fields replaced.

        Raises:
            InvalidSpec: its access names a port that its template does not have.
        """
        changed = GPUUnitSpec.parse({**spec.normalised(), **self.payload()})
        fault = access_fault(changed)
        if fault:
            raise invalid_spec([fault])
        return changed


class UnitAction(SpecModel):
    """Stops or starts a GPU unit."""

    operation_id: OperationID = Field(alias="operationID")

    def payload(self) -> dict[str, Any]:
        """Return the payload of the request hash: the route says everything."""
        return {}


class StockSeed(SpecModel):
    """Seeds a number of stock units of a GPU spec."""

    operation_id: OperationID = Field(alias="operationID")
    spec_name: SpecName = Field(
        alias="specName",
        description="GPU spec of the stock. Seeding an unknown name adds it to the catalogue.",
    )
    cpu: Cpu | None = None
    memory: Memory | None = None
    gpu: Gpu | None = None
    replicas: int = Field(
        ge=1, le=MAX_REPLICAS, description="Number of stock units to create.", examples=[2]
    )

    def payload(self) -> dict[str, Any]:
        """Return the payload of the request hash: without the operationID."""
        payload = self.normalised()
        del payload["operationID"]
        return payload
