"""Spec and status of a GPU unit in either role.

The request validation, the OpenAPI components, the CRD schema and the parser of the reconciler are
derived from these models. Pure.
"""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError
from typing_extensions import override

from gpuplatform.errors import FieldError
from gpuplatform.formats import names, quantity
from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.priority import MAX_PRIORITY
from gpuplatform.formats.status import ObservedStatus
from gpuplatform.formats.text import quoted
from gpuplatform.formats.validations import cel, immutable, validated
from gpuplatform.workloads.function_worker import Serverless
from gpuplatform.workloads.placement import Placement
from gpuplatform.workloads.resources import (
    GPU_RESOURCE,
    ONE_COUNT,
    ResourceName,
    Resources,
    counted_once,
)
from gpuplatform.workloads.start_steps import StartStep
from gpuplatform.workloads.template import (
    MUST_RESTART,
    Gpu,
    Image,
    Memory,
    PodTemplate,
    Port,
    SpecName,
    Template,
)
from units.core.groups import GROUP_RULES, Group, check_variables

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


Priority = Annotated[
    int,
    Field(
        ge=0,
        le=MAX_PRIORITY,
        description="Priority in the capacity queue, up to the limit of the tenant.",
        examples=[0],
    ),
]
Preemptible = Annotated[
    bool,
    Field(
        description="Whether the unit is last in the capacity queue, and can be stopped for a"
        " request that is not preemptible.",
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
            immutable("resourceName"),
            immutable("resources", empty="{}"),
            ONE_COUNT,
            cel(
                "!has(self.access) || !has(self.access.primaryPort)"
                " || (has(self.template) && has(self.template.ports)"
                " && self.template.ports.exists(p, p.name == self.access.primaryPort))",
                "Must be the name of a port of the template.",
                field_path=".access.primaryPort",
            ),
            cel(
                "!has(self.serverless) || !has(self.template) || !has(self.template.restart)"
                " || self.template.restart == 'always'",
                MUST_RESTART,
                field_path=".template.restart",
            ),
            *GROUP_RULES,
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
    resource_name: ResourceName = Field(default=GPU_RESOURCE, alias="resourceName")
    resources: Resources = Field(default={})
    placement: (
        Annotated[Placement, Field(description="Constraints on the nodes that can run the pod.")]
        | None
    ) = None
    template: Template | None = None
    access: Annotated[Access, Field(description="Settings of the access URL.")] | None = None
    serverless: (
        Annotated[Serverless, Field(description="Settings of a worker of a function.")] | None
    ) = None
    group: (
        Annotated[Group, Field(description="Place in a group of units that start together.")]
        | None
    ) = None
    priority: Priority = 0
    preemptible: Preemptible = False
    suspend: bool = Field(
        default=False,
        description="Whether the unit is stopped. A stopped unit has no pod and holds no GPUs.",
    )

    @model_validator(mode="after")
    def resources_are_counted_once(self) -> Self:
        """Reject further resources that contain the resource of the GPUs."""
        counted_once(self.resource_name, self.resources)
        return self

    @model_validator(mode="after")
    def worker_never_ends(self) -> Self:
        """Reject a worker of a function whose program may end."""
        if self.serverless and self.template and self.template.may_end:
            error = PydanticCustomError("restart", "{message}", {"message": MUST_RESTART})
            place = InitErrorDetails(type=error, loc=("template", "restart"), input=None)
            raise ValidationError.from_exception_data("GPUUnitSpec", [place])
        return self

    @model_validator(mode="after")
    def group_variables_are_free(self) -> Self:
        """Reject variables that the platform sets in a unit of a group."""
        if self.group:
            check_variables(self.template, "template")
        return self

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


class StartStepStatus(SpecModel):
    """A step of the start of a unit."""

    step: StartStep = Field(description="What the start waits for.", examples=["ImagePull"])
    since: str = Field(
        json_schema_extra={"format": "date-time"},
        description="Time at which the step began.",
        examples=["2026-01-31T12:00:00Z"],
    )
    seconds: int | None = Field(
        default=None,
        ge=0,
        description="Duration of the step; absent while it is in progress.",
        examples=[12],
    )
    message: str | None = Field(
        default=None,
        max_length=500,
        description="Message of the node about an image pull, with the size of the image.",
    )


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
        description="URL of the unit inside the cluster; absent unless the unit is ready and has"
        " ports.",
        examples=["http://unit-trainer.runtime-instance.svc.cluster.local:8080"],
    )
    start_steps: Annotated[tuple[StartStepStatus, ...], Field(strict=False)] = Field(
        default=(),
        alias="startSteps",
        description="Steps of the last start until the unit was ready; absent for stock.",
    )
    exit_code: int | None = Field(
        default=None,
        alias="exitCode",
        description="Exit code of the last end of a program that may end; absent if unknown.",
        examples=[0],
    )
    finished_at: str | None = Field(
        default=None,
        alias="finishedAt",
        json_schema_extra={"format": "date-time"},
        description="Time at which the program ended.",
        examples=["2026-01-31T12:00:00Z"],
    )
    finished_run: str | None = Field(
        default=None,
        alias="finishedRun",
        max_length=36,
        description="Run whose program has ended: the UID of the stock unit that the start"
        " claimed. A run ends once; the next start begins another one.",
        examples=["1f0e5f2c-8c5e-4d0b-9a57-3f3f0f6f7a10"],
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
