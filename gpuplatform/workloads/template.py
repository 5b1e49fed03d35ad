"""The declaration of a pod's container: image, size, command, environment and ports.

Shared by the specs of stock pools, GPU units and functions. From these models come the request
validation, the OpenAPI components, the schemas of the CRDs and the parse in the reconcilers. Pure.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from gpuplatform.formats import image, names, quantity, text
from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.validations import cel, none_of, validated

MAX_ENTRIES = 100
MAX_VALUE_BYTES = 32 * 1024
MAX_TEMPLATE_BYTES = 256 * 1024
"""Command, arguments and environment together: far below what the kernel and etcd take."""

MAX_GPUS = 1024
MAX_REPLICAS = 10_000

RESERVED_ENV_PREFIXES = ("LD_", "NVIDIA_", "KUBERNETES_", "SERVERLESS_")
"""The loader, the GPU runtime, the kubelet and the platform own these."""
RESERVED_ENV_NAMES = frozenset(
    {"CUDA_VISIBLE_DEVICES", "SPEC_NAME", "POOL_NAME", "UNIT_NAME", "GPU_COUNT", "MEMORY_LIMIT"}
)

_SECRETS_OF_THE_PLATFORM: Final = re.compile("gpu-platform-.*|fn-[0-9]+-queue")
"""What its processes and the workers of functions log in with: no template may read them."""


def _pattern(pattern: str) -> dict[str, Any]:
    return {"pattern": f"^{pattern}$"}


def _env_name(name: str) -> str:
    names.env_name(name)
    if name in RESERVED_ENV_NAMES or name.startswith(RESERVED_ENV_PREFIXES):
        msg = f"{text.quoted(name)} is set by the platform and cannot be given."
        raise ValueError(msg)
    return name


def _secret_name(name: str) -> str:
    names.dns_subdomain(name)
    if _SECRETS_OF_THE_PLATFORM.fullmatch(name):
        msg = f"{text.quoted(name)} is the platform's own and cannot be referred to."
        raise ValueError(msg)
    return name


ContainerText = Annotated[
    str, AfterValidator(text.container_text), Field(max_length=MAX_VALUE_BYTES)
]
SpecName = Annotated[
    str,
    AfterValidator(names.spec_name),
    Field(
        json_schema_extra={**_pattern(names.SPEC_NAME), "minLength": 1, "maxLength": 63},
        description="The GPU spec that the pool holds. Kept as a label, so at most 63"
        " characters: letters,"
        " digits, '-', '_' and '.', starting with a lower-case letter or a digit.",
        examples=["g1.1"],
    ),
]
Image = Annotated[
    str,
    AfterValidator(image.image_reference),
    Field(
        description="The image that the pods run, as the container runtime reads it. Without one"
        " they run"
        " the platform's reservation image.",
        examples=["registry.example.com/team/trainer:1.4"],
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
        description="Memory of one pod, request and limit: a Kubernetes quantity of whole bytes,"
        " at least"
        " 1Mi. Returned in canonical form.",
        examples=["16Gi"],
    ),
]
Gpu = Annotated[
    int,
    Field(ge=0, le=MAX_GPUS, description="GPUs of one pod, request and limit.", examples=[1]),
]
Replicas = Annotated[
    int,
    Field(ge=0, le=MAX_REPLICAS, description="How many pods the pool holds.", examples=[2]),
]


class SecretKeyReference(SpecModel):
    """One key of a Secret in the namespace of the pod."""

    name: Annotated[str, AfterValidator(_secret_name)] = Field(
        json_schema_extra={
            **_pattern(names.DNS_SUBDOMAIN),
            "minLength": 1,
            "maxLength": names.SUBDOMAIN_MAX,
            **validated(
                cel(
                    "!self.startsWith('gpu-platform-') && !self.matches('^fn-[0-9]+-queue$')",
                    "Secrets of the platform cannot be referenced.",
                )
            ),
        },
        description="The Secret, in the namespace of the pod. Those of the platform"
        " (gpu-platform-…, fn-…-queue) cannot be referred to.",
        examples=["hf"],
    )
    key: Annotated[str, AfterValidator(names.config_key)] = Field(
        json_schema_extra={
            **_pattern(names.CONFIG_KEY),
            "minLength": 1,
            "maxLength": names.SUBDOMAIN_MAX,
        },
        description="The key of the Secret's data: letters, digits, '-', '_' and '.'.",
        examples=["token"],
    )


class EnvVarSource(SpecModel):
    """Where the value of a variable comes from."""

    secret_key_ref: Annotated[
        SecretKeyReference, Field(description="A Secret and the key of its data.")
    ] = Field(alias="secretKeyRef", examples=[{"name": "hf", "key": "token"}])


class EnvVar(SpecModel):
    """One environment variable of the container, with a value or where that comes from."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            cel(
                "!(has(self.value) && has(self.valueFrom))",
                "value and valueFrom exclude each other.",
            )
        )
    )

    name: Annotated[str, AfterValidator(_env_name)] = Field(
        json_schema_extra={
            **_pattern(names.ENV_NAME),
            "maxLength": names.ENV_NAME_MAX,
            **validated(
                none_of(
                    RESERVED_ENV_NAMES,
                    RESERVED_ENV_PREFIXES,
                    "The platform sets this variable; choose another name.",
                )
            ),
        },
        description="Letters, digits, '-', '_' and '.', not starting with a digit. Names that"
        " the platform"
        " sets (LD_…, NVIDIA_…, KUBERNETES_…, SERVERLESS_…, CUDA_VISIBLE_DEVICES, SPEC_NAME,"
        " POOL_NAME, UNIT_NAME, GPU_COUNT, MEMORY_LIMIT) cannot be given.",
        examples=["MODEL"],
    )
    value: ContainerText = Field(
        default="",
        description="At most 32 KiB, without control characters except tab and line ends. Shown"
        " to whoever may read the template: what is secret belongs into a Secret.",
        examples=["llama-3-8b"],
    )
    value_from: (
        Annotated[
            EnvVarSource,
            Field(description="Where the value comes from, instead of `value`."),
        ]
        | None
    ) = Field(
        default=None,
        alias="valueFrom",
        examples=[{"secretKeyRef": {"name": "hf", "key": "token"}}],
    )

    @model_validator(mode="after")
    def has_one_value(self) -> "EnvVar":
        """Kubernetes refuses both, unless the value is empty."""
        if self.value_from is not None and "value" in self.model_fields_set:
            fault = PydanticCustomError(
                "two_values", "Cannot be given beside value: give one of them."
            )
            raise ValidationError.from_exception_data(
                "EnvVar",
                [InitErrorDetails(type=fault, loc=("valueFrom",), input=self.value_from)],
            )
        return self


class Port(SpecModel):
    """One port of the container, and of the Service in front of it."""

    name: Annotated[str, AfterValidator(names.port_name)] = Field(
        json_schema_extra={**_pattern(names.PORT_NAME), "maxLength": 15},
        description="At most 15 lower-case letters, digits and single '-', with at least one"
        " letter.",
        examples=["http"],
    )
    port: int = Field(ge=1, le=65535, description="The port number.", examples=[8080])
    protocol: Literal["TCP", "UDP", "SCTP"] = Field(
        default="TCP", description="The transport protocol.", examples=["TCP"]
    )


class PodTemplate(SpecModel):
    """What runs in the container; an empty template is the same as none."""

    command: Annotated[tuple[ContainerText, ...], Field(strict=False)] = Field(
        default=(),
        max_length=MAX_ENTRIES,
        description="Replaces the image's entry point.",
        examples=[["python", "-m", "http.server"]],
    )
    args: Annotated[tuple[ContainerText, ...], Field(strict=False)] = Field(
        default=(),
        max_length=MAX_ENTRIES,
        description="The arguments of the command.",
        examples=[["8080"]],
    )
    envs: Annotated[tuple[EnvVar, ...], Field(strict=False)] = Field(
        default=(),
        max_length=MAX_ENTRIES,
        description="Environment variables; each name once.",
        examples=[
            [
                {"name": "MODEL", "value": "llama-3-8b"},
                {
                    "name": "HF_TOKEN",
                    "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}},
                },
            ]
        ],
        json_schema_extra={"x-kubernetes-list-map-keys": ["name"]},
    )
    ports: Annotated[tuple[Port, ...], Field(strict=False)] = Field(
        default=(),
        max_length=MAX_ENTRIES,
        description="Ports; each name once, each number and protocol once. With ports there is a"
        " Service.",
        examples=[[{"name": "http", "port": 8080, "protocol": "TCP"}]],
        json_schema_extra={
            "x-kubernetes-list-map-keys": ["name"],
            **validated(
                cel(
                    "self.all(p, self.exists_one(q, q.port == p.port"
                    " && (has(q.protocol) ? q.protocol : 'TCP')"
                    " == (has(p.protocol) ? p.protocol : 'TCP')))",
                    "A port number may be used only once for each protocol.",
                )
            ),
        },
    )

    @field_validator("command")
    @classmethod
    def first_word_is_a_program(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        """An empty program name passes the API server and fails on the node."""
        if command and not command[0].strip():
            msg = "Must start with the name of a program."
            raise ValueError(msg)
        return command

    @field_validator("envs")
    @classmethod
    def env_names_differ(cls, envs: tuple[EnvVar, ...]) -> tuple[EnvVar, ...]:
        """Kubernetes would let the last one win, in silence."""
        _refuse_repeats([env.name for env in envs], "name")
        return envs

    @field_validator("ports")
    @classmethod
    def ports_differ(cls, ports: tuple[Port, ...]) -> tuple[Port, ...]:
        """A Deployment takes one number and protocol twice, its Service does not."""
        _refuse_repeats([port.name for port in ports], "name")
        _refuse_repeats([f"{port.port}/{port.protocol}" for port in ports], "port")
        return ports

    @model_validator(mode="after")
    def fits_together(self) -> "PodTemplate":
        """Each value may be fine and all of them too much for one process."""
        values = [*self.command, *self.args, *(env.name + env.value for env in self.envs)]
        if sum(len(value.encode()) for value in values) > MAX_TEMPLATE_BYTES:
            msg = f"Command, args and envs have together more than {MAX_TEMPLATE_BYTES} bytes."
            raise ValueError(msg)
        return self


Template = Annotated[
    PodTemplate, Field(description="Command, arguments, environment and ports of the container.")
]


def _refuse_repeats(keys: Sequence[str], field: str) -> None:
    """Point at the second of two equal entries, not at the list."""
    seen: set[str] = set()
    for index, key in enumerate(keys):
        if key in seen:
            fault = PydanticCustomError(
                "duplicate", "{key} is given twice.", {"key": text.quoted(key)}
            )
            raise ValidationError.from_exception_data(
                "list", [InitErrorDetails(type=fault, loc=(index, field), input=key)]
            )
        seen.add(key)
