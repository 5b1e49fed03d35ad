"""The fields of a container in the specs of stock pools, GPU units and functions. Pure.

The request validation, the OpenAPI components, the CRD schemas and the parsers of the reconcilers
are generated from these models.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from gpuplatform.formats import image, names, quantity
from gpuplatform.formats.model import SpecModel, reject_duplicates
from gpuplatform.formats.quantity import Quantity
from gpuplatform.formats.validations import cel, validated
from gpuplatform.workloads.probes import Probe
from gpuplatform.workloads.process import (
    Annotations,
    GraceSeconds,
    SecurityContext,
    WorkingDirectory,
)
from gpuplatform.workloads.references import PullSecret
from gpuplatform.workloads.storage import Scratch, StorageSize
from gpuplatform.workloads.variables import ContainerText, EnvFromSource, EnvVar

MAX_TEMPLATE_BYTES = 256 * 1024
"""Maximum total size of command, arguments and environment, below the limits of kernel and
etcd. It limits the template; `MAX_ENTRIES` only limits the cost of the validation."""
MAX_ENTRIES = 10_000
MAX_VARIABLES = 1_000
"""Maximum number of `envs`. The API server merges them by name, which takes about a millisecond
for each of them in every write."""
MAX_PORTS = 100
MAX_SOURCES = 100
MAX_PULL_SECRETS = 20

MAX_GPUS = 1024
MAX_REPLICAS = 10_000


def _pattern(pattern: str) -> dict[str, Any]:
    return {"pattern": f"^{pattern}$"}


SpecName = Annotated[
    str,
    AfterValidator(names.spec_name),
    Field(
        json_schema_extra={**_pattern(names.SPEC_NAME), "minLength": 1, "maxLength": 63},
        description="Name of the GPU spec, which is also the value of a label of the pods. It"
        " consists of at most 63 letters, digits, '-', '_' and '.', and starts with a lowercase"
        " letter or a digit.",
        examples=["h100-1g"],
    ),
]
Image = Annotated[
    str,
    AfterValidator(image.image_reference),
    Field(
        description="Container image name. Defaults to the reservation image of the platform.",
        examples=["docker.io/library/python:3.13-slim"],
    ),
]
Memory = Annotated[
    str,
    AfterValidator(quantity.memory),
    Field(
        json_schema_extra=validated(
            cel(
                "isQuantity(self) && quantity(self).compareTo(quantity('1Mi')) >= 0",
                "Must be a Kubernetes quantity of at least 1Mi.",
            )
        )
        | {"maxLength": quantity.MAX_LENGTH},
        description="Memory request and limit of each pod, as a Kubernetes quantity. It must be an"
        " integer number of bytes, at least 1Mi, and is returned in canonical form.",
        examples=["16Gi"],
    ),
]
Gpu = Annotated[
    int,
    Field(ge=0, le=MAX_GPUS, description="Number of GPUs of each pod.", examples=[1]),
]
Replicas = Annotated[
    int,
    Field(ge=0, le=MAX_REPLICAS, description="Desired number of pods.", examples=[2]),
]


Restart = Literal["always", "onFailure", "never"]


class Port(SpecModel):
    """A port of the container and of the Service."""

    name: Annotated[str, AfterValidator(names.port_name)] = Field(
        json_schema_extra={**_pattern(names.PORT_NAME), "maxLength": 15},
        description="Name of the port. It consists of at most 15 lowercase letters, digits and"
        " '-', has at least one letter, and does not contain '--'.",
        examples=["http"],
    )
    port: int = Field(ge=1, le=65535, description="Number of the port.", examples=[8080])
    protocol: Literal["TCP", "UDP", "SCTP"] = Field(
        default="TCP",
        description="Protocol of the port. Must be TCP, UDP or SCTP. Defaults to TCP.",
        examples=["TCP"],
    )


class PodTemplate(SpecModel):
    """The container of the user and its pod.

    An empty template is equivalent to no template.
    """

    command: Annotated[tuple[ContainerText, ...], Field(strict=False)] = Field(
        default=(),
        max_length=MAX_ENTRIES,
        description="Entrypoint of the container. Defaults to the entrypoint of the image. Each"
        " entry reaches the program exactly as sent; `$$` and `$(NAME)` are not expanded.",
        examples=[["python", "-m", "http.server"]],
    )
    args: Annotated[tuple[ContainerText, ...], Field(strict=False)] = Field(
        default=(),
        max_length=MAX_ENTRIES,
        description="Arguments of the entrypoint. Defaults to the command of the image. Each"
        " entry reaches the program exactly as sent; `$$` and `$(NAME)` are not expanded.",
        examples=[["8080"]],
    )
    working_dir: WorkingDirectory | None = Field(default=None, alias="workingDir")
    restart: Restart = Field(
        default="always",
        description="When an ended program is started again; `onFailure` at most 6 times. Only GPU"
        " units accept `onFailure` and `never`.",
    )
    envs: Annotated[tuple[EnvVar, ...], Field(strict=False)] = Field(
        default=(),
        max_length=MAX_VARIABLES,
        description="Environment variables of the container. Their names must be unique.",
        examples=[
            [{"name": "MODEL", "value": "llama-3-8b"}],
            [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}],
        ],
        json_schema_extra={"x-kubernetes-list-map-keys": ["name"]},
    )
    env_from: Annotated[tuple[EnvFromSource, ...], Field(strict=False)] = Field(
        default=(),
        alias="envFrom",
        max_length=MAX_SOURCES,
        description="Secrets and ConfigMaps whose keys become environment variables. A variable in"
        " envs takes precedence; among the sources, the last one takes precedence.",
        examples=[[{"prefix": "HF_", "secretRef": {"name": "hf"}}]],
    )
    ports: Annotated[tuple[Port, ...], Field(strict=False)] = Field(
        default=(),
        max_length=MAX_PORTS,
        description="Ports of the container. Their names, and their pairs of number and protocol,"
        " must be unique. If there are ports, the platform creates a Service.",
        examples=[[{"name": "http", "port": 8080, "protocol": "TCP"}]],
        json_schema_extra={
            "x-kubernetes-list-map-keys": ["name"],
            **validated(
                cel(
                    "self.all(p, self.exists_one(q, q.port == p.port"
                    " && (has(q.protocol) ? q.protocol : 'TCP')"
                    " == (has(p.protocol) ? p.protocol : 'TCP')))",
                    "The pairs of port number and protocol must be unique.",
                )
            ),
        },
    )

    readiness: (
        Annotated[
            Probe,
            Field(
                description="Probe that determines whether the pod is ready. By default, the pod"
                " is ready when its program listens on the primary port of the unit, or on the"
                " first TCP port of the template. Without a TCP port, it is ready when the"
                " container runs.",
                examples=[{"httpGet": {"path": "/health"}}],
            ),
        ]
        | None
    ) = None
    startup: (
        Annotated[
            Probe,
            Field(
                description="Probe that determines whether the program has started. Until then,"
                " the other probes do not run. Not used by default.",
                examples=[{"httpGet": {"path": "/health"}, "seconds": 7200}],
            ),
        ]
        | None
    ) = None
    liveness: (
        Annotated[
            Probe,
            Field(
                description="Probe that restarts the container when it fails. Not used by"
                " default.",
                examples=[{"httpGet": {"path": "/health"}, "seconds": 60}],
            ),
        ]
        | None
    ) = None
    image_pull_secrets: Annotated[tuple[PullSecret, ...], Field(strict=False)] = Field(
        default=(),
        alias="imagePullSecrets",
        max_length=MAX_PULL_SECRETS,
        description="Docker registry Secrets in the namespace of the pod, with which the"
        " node pulls the image from a private registry.",
        examples=[[{"name": "registry"}]],
        json_schema_extra={"x-kubernetes-list-map-keys": ["name"]},
    )
    shm_size: (
        Annotated[
            StorageSize,
            Field(
                description="Size of the shared memory in /dev/shm. It is part of the memory of"
                " the pod. Defaults to half of the memory.",
                examples=["8Gi"],
            ),
        ]
        | None
    ) = Field(default=None, alias="shmSize")
    scratch: (
        Annotated[
            Scratch,
            Field(
                description="Empty directory on the disk of the node, which is deleted with the"
                " pod. A restart of the container keeps it.",
                examples=[{"size": "100Gi", "mountPath": "/scratch"}],
            ),
        ]
        | None
    ) = None
    ephemeral_storage: (
        Annotated[
            StorageSize,
            Field(
                description="Maximum size of the files of the pod on the disk of its node: the"
                " files that the container writes, its logs, and `scratch`. A pod that exceeds it"
                " is evicted. Defaults to 100Gi and 200Gi for each GPU, plus the size of"
                " `scratch`.",
                examples=["500Gi"],
            ),
        ]
        | None
    ) = Field(default=None, alias="ephemeralStorage")

    annotations: Annotations = Field(default={})
    termination_grace_period_seconds: GraceSeconds | None = Field(
        default=None, alias="terminationGracePeriodSeconds"
    )
    security_context: (
        Annotated[
            SecurityContext,
            Field(description="User, groups and file system of the container."),
        ]
        | None
    ) = Field(default=None, alias="securityContext")

    @property
    def may_end(self) -> bool:
        """Whether the program may end. Otherwise, it is started again whenever it ends."""
        return self.restart != "always"

    @property
    def first_tcp_port(self) -> int | None:
        """The number of the first TCP port."""
        return next((port.port for port in self.ports if port.protocol == "TCP"), None)

    @field_validator("command")
    @classmethod
    def first_word_is_a_program(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        """Reject an empty program name, which would fail on the node."""
        if command and not command[0].strip():
            msg = "The first entry must be the name of a program."
            raise ValueError(msg)
        return command

    @field_validator("envs")
    @classmethod
    def env_names_differ(cls, envs: tuple[EnvVar, ...]) -> tuple[EnvVar, ...]:
        """Reject duplicate names, because Kubernetes would use only the last variable."""
        reject_duplicates([env.name for env in envs], "name")
        return envs

    @field_validator("image_pull_secrets")
    @classmethod
    def pull_secrets_differ(cls, secrets: tuple[PullSecret, ...]) -> tuple[PullSecret, ...]:
        """Reject duplicate names, which the API server does not accept in the CRD."""
        reject_duplicates([secret.name for secret in secrets], "name")
        return secrets

    @field_validator("ports")
    @classmethod
    def ports_differ(cls, ports: tuple[Port, ...]) -> tuple[Port, ...]:
        """Reject duplicate ports, which a Service does not accept."""
        reject_duplicates([port.name for port in ports], "name")
        reject_duplicates([f"{port.port}/{port.protocol}" for port in ports], "port")
        return ports

    @model_validator(mode="after")
    def fits_together(self) -> "PodTemplate":
        """Reject a template with values that are too large in total, or that do not fit."""
        values = [*self.command, *self.args, *(env.name + env.value for env in self.envs)]
        if sum(len(value.encode()) for value in values) > MAX_TEMPLATE_BYTES:
            msg = f"The total size of command, args and envs exceeds {MAX_TEMPLATE_BYTES} bytes."
            raise ValueError(msg)
        if self.first_tcp_port is None:
            for field in ("readiness", "startup", "liveness"):
                probe: Probe | None = getattr(self, field)
                if probe and (handler := probe.without_port):
                    raise _rejected(
                        "Is required, because the template has no TCP port.",
                        *(field, handler, "port"),
                    )
        if self.scratch and self.ephemeral_storage:
            maximum = Quantity.parse(self.ephemeral_storage)
            if maximum < Quantity.parse(self.scratch.size):
                raise _rejected("Must be at least scratch.size.", "ephemeralStorage")
        return self


def _rejected(message: str, *path: str) -> ValidationError:
    """Return the error of the field at `path`."""
    error = PydanticCustomError("template", "{message}", {"message": message})
    return ValidationError.from_exception_data(
        "PodTemplate", [InitErrorDetails(type=error, loc=path, input=None)]
    )


def _never_ends(template: PodTemplate) -> PodTemplate:
    """Reject a template whose program may end, because its pods must keep running."""
    if template.may_end:
        raise _rejected(MUST_RESTART, "restart")
    return template


MUST_RESTART: Final = "Must be 'always', because only GPU units can run programs that end."
_EXAMPLE: Final = {
    "command": ["python", "-m", "http.server"],
    "args": ["8080"],
    "envs": [{"name": "MODEL", "value": "llama-3-8b"}],
    "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
}

Template = Annotated[
    PodTemplate, Field(description="Template of the container.", examples=[_EXAMPLE])
]
EndlessTemplate = Annotated[
    PodTemplate,
    AfterValidator(_never_ends),
    Field(
        description="Template of the container.",
        examples=[_EXAMPLE],
        json_schema_extra=validated(
            cel(
                "!has(self.restart) || self.restart == 'always'",
                MUST_RESTART,
                field_path=".restart",
            )
        ),
    ),
]
"""The template of pods that must keep running: of stock pools and of functions."""
