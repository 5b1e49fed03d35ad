"""The declaration of a GPU unit in either role: its spec and its status.

The request validation, the OpenAPI components, the schema of the CRD and the parser of the
reconciler (`parse_unit_spec`) follow from these models. Pure.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field
from typing_extensions import override

from gpuplatform.errors import FieldError
from gpuplatform.formats import names, quantity
from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.status import ObservedStatus
from gpuplatform.formats.text import quoted
from gpuplatform.formats.validations import cel, immutable, validated
from gpuplatform.workloads.function_worker import Serverless
from gpuplatform.workloads.placement import Placement
from gpuplatform.workloads.template import (
    Gpu,
    Image,
    Memory,
    PodTemplate,
    Port,
    SpecName,
    Template,
)

DEFAULT_SCHEME: Final = "http"

Scheme = Literal["http", "https", "ws", "wss", "grpc", "grpcs", "tcp", "udp"]
Cpu = Annotated[
    str,
    AfterValidator(quantity.cpu),
    Field(
        json_schema_extra=validated(
            cel(
                "isQuantity(self) && quantity(self).compareTo(quantity('1m')) >= 0",
                "Must be a Kubernetes quantity of at least 1m.",
            )
        )
        | {"maxLength": quantity.MAX_LENGTH},
        description="CPU of the pod, as request and limit: a Kubernetes quantity that is a"
        " multiple of 1m. Returned in canonical form.",
        examples=["4"],
    ),
]


class Access(SpecModel):
    """How the unit is reached from inside the cluster."""

    primary_port: Annotated[str, AfterValidator(names.port_name)] | None = Field(
        default=None,
        alias="primaryPort",
        json_schema_extra={"pattern": f"^{names.PORT_NAME}$", "maxLength": 15},
        description="Name of the template's port in the access URL; by default the first port.",
        examples=["http"],
    )
    scheme: Scheme = Field(
        default=DEFAULT_SCHEME, description="Scheme of the access URL.", examples=["http"]
    )


class GPUUnitSpec(SpecModel):
    """A pod with its GPUs: run for a user, or held as stock."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            immutable("specName"),
            immutable("gpu"),
            cel(
                "!has(self.access) || !has(self.access.primaryPort)"
                " || (has(self.template) && has(self.template.ports)"
                " && self.template.ports.exists(p, p.name == self.access.primaryPort))",
                "Must be the name of a port of the template.",
                field_path=".access.primaryPort",
            ),
        )
    )

    spec_name: SpecName = Field(
        alias="specName", description="Name of the GPU spec; it is also a label of the pod."
    )
    image: Image | None = Field(
        default=None,
        description="Container image. Stock has none and runs the platform's reservation image.",
    )
    cpu: Cpu | None = None
    memory: Memory | None = None
    gpu: Gpu = 0
    placement: (
        Annotated[Placement, Field(description="Nodes on which the pod may run.")] | None
    ) = None
    template: Template | None = None
    access: Annotated[Access, Field(description="How the unit is reached.")] | None = None
    serverless: (
        Annotated[Serverless, Field(description="Settings of a function's worker.")] | None
    ) = None
    suspend: bool = Field(
        default=False, description="Whether the unit is stopped, so that it releases its GPUs."
    )

    @override
    def normalised(self) -> dict[str, Any]:
        """Return the JSON object for hash and resource, without empty blocks."""
        return without_empty_blocks(super().normalised())

    @property
    def ports(self) -> tuple[Port, ...]:
        """The ports of the container."""
        return (self.template or PodTemplate()).ports

    @property
    def primary_port(self) -> Port | None:
        """The port of the access URL; None without ports, or if the named port is missing."""
        wanted = self.access.primary_port if self.access else None
        if wanted is None:
            return self.ports[0] if self.ports else None
        return next((port for port in self.ports if port.name == wanted), None)


def without_empty_blocks(payload: dict[str, Any]) -> dict[str, Any]:
    """Return `payload` without empty blocks, which equal absent ones."""
    empty = {key for key in ("placement", "template", "access") if payload.get(key) == {}}
    return {key: value for key, value in payload.items() if key not in empty}


class GPUUnitStatus(ObservedStatus):
    """The observed state; written by the platform only."""

    ready_replicas: int = Field(
        default=0, alias="readyReplicas", ge=0, description="Number of ready pods.", examples=[1]
    )
    service_name: str | None = Field(
        default=None,
        alias="serviceName",
        max_length=63,
        description="Service of the pod; absent without ports and for stock.",
        examples=["unit-trainer"],
    )
    access_url: str | None = Field(
        default=None,
        alias="accessURL",
        max_length=300,
        description="Address inside the cluster; absent without ports and for stock.",
        examples=["http://unit-trainer.runtime-instance.svc.cluster.local:8080"],
    )


def parse_unit_spec(raw: object) -> GPUUnitSpec:
    """Parse the `.spec` of a resource, which may have been written with kubectl.

    Raises:
        InvalidSpec: it breaks a rule of one field; for access see `access_fault`.
    """
    return GPUUnitSpec.parse(raw)


def access_fault(spec: GPUUnitSpec) -> FieldError | None:
    """Return the fault between `access` and the ports of the template, if there is one."""
    return port_fault(spec.access, spec.template)


def port_fault(access: Access | None, template: PodTemplate | None) -> FieldError | None:
    """Return the fault of an `access` that names a port which `template` does not have."""
    wanted = access.primary_port if access else None
    known = [port.name for port in template.ports] if template else []
    if wanted is None or wanted in known:
        return None
    why = f"is not among the template's ports: {', '.join(known[:10])}"
    if not known:
        why = "cannot be used: the template has no ports"
    return FieldError("access.primaryPort", f"{quoted(wanted)} {why}.")
