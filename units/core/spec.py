"""Spec and status of a GPU unit in either role.

The request validation, the OpenAPI components, the CRD schema and the parser of the reconciler are
derived from these models. Pure.
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
        description="CPU of the pod, used as request and limit: a Kubernetes quantity that is a"
        " multiple of 1m. Responses contain its canonical form.",
        examples=["4"],
    ),
]


class Access(SpecModel):
    """The access URL of a unit inside the cluster."""

    primary_port: Annotated[str, AfterValidator(names.port_name)] | None = Field(
        default=None,
        alias="primaryPort",
        json_schema_extra={"pattern": f"^{names.PORT_NAME}$", "maxLength": 15},
        description="Name of the template port in the access URL. Defaults to the first port.",
        examples=["http"],
    )
    scheme: Scheme = Field(
        default=DEFAULT_SCHEME, description="Scheme of the access URL.", examples=["http"]
    )


class GPUUnitSpec(SpecModel):
    """The desired state of a GPU unit: a pod with GPUs, run for a user or held as stock."""

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
        alias="specName", description="Name of the GPU spec; it is also a label value of the pod."
    )
    image: Image | None = Field(
        default=None,
        description="Container image. A stock unit has no image and runs the platform's"
        " reservation image.",
    )
    cpu: Cpu | None = None
    memory: Memory | None = None
    gpu: Gpu = 0
    placement: (
        Annotated[Placement, Field(description="Constraints on the nodes that can run the pod.")]
        | None
    ) = None
    template: Template | None = None
    access: Annotated[Access, Field(description="Settings of the access URL.")] | None = None
    serverless: (
        Annotated[Serverless, Field(description="Settings of a worker of a function.")] | None
    ) = None
    suspend: bool = Field(
        default=False,
        description="Whether the unit is stopped. A stopped unit has no pod and holds no GPUs.",
    )

    @override
    def normalised(self) -> dict[str, Any]:
        """Return the canonical JSON object, without empty blocks."""
        return without_empty_blocks(super().normalised())

    @property
    def ports(self) -> tuple[Port, ...]:
        """The ports of the container. A spec without a template has no ports."""
        return (self.template or PodTemplate()).ports

    @property
    def primary_port(self) -> Port | None:
        """The port of the access URL, or `None` if the template does not have it."""
        wanted = self.access.primary_port if self.access else None
        if wanted is None:
            return self.ports[0] if self.ports else None
        return next((port for port in self.ports if port.name == wanted), None)


def without_empty_blocks(payload: dict[str, Any]) -> dict[str, Any]:
    """Return `payload` without empty blocks, which are equivalent to absent blocks."""
    empty = {key for key in ("placement", "template", "access") if payload.get(key) == {}}
    return {key: value for key, value in payload.items() if key not in empty}


class GPUUnitStatus(ObservedStatus):
    """The last observed state of a GPU unit. Only the reconciler writes it."""

    ready_replicas: int = Field(
        default=0, alias="readyReplicas", ge=0, description="Number of ready pods.", examples=[1]
    )
    service_name: str | None = Field(
        default=None,
        alias="serviceName",
        max_length=63,
        description="Name of the Service of the pod; absent for stock and without ports.",
        examples=["unit-trainer"],
    )
    access_url: str | None = Field(
        default=None,
        alias="accessURL",
        max_length=300,
        description="URL of the unit inside the cluster; absent for stock and without ports.",
        examples=["http://unit-trainer.runtime-instance.svc.cluster.local:8080"],
    )


def access_error(access: Access | None, template: PodTemplate | None) -> FieldError | None:
    """Return the error of an `access` whose primary port is not a port of `template`, if any."""
    wanted = access.primary_port if access else None
    known = [port.name for port in template.ports] if template else []
    if wanted is None or wanted in known:
        return None
    problem = f"is not a port of the template. Its ports are: {', '.join(known[:10])}"
    if not known:
        problem = "cannot be used, because the template has no ports"
    return FieldError("access.primaryPort", f"{quoted(wanted)} {problem}.")
