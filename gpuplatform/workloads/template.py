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
"""Limit of command, arguments and environment together, far below those of kernel and etcd."""

MAX_GPUS = 1024
MAX_REPLICAS = 10_000

RESERVED_ENV_PREFIXES = ("LD_", "NVIDIA_", "KUBERNETES_", "SERVERLESS_")
"""Prefixes that belong to the loader, the GPU runtime, the kubelet and the platform."""
RESERVED_ENV_NAMES = frozenset(
    {"CUDA_VISIBLE_DEVICES", "SPEC_NAME", "POOL_NAME", "UNIT_NAME", "GPU_COUNT", "MEMORY_LIMIT"}
)

_SECRETS_OF_THE_PLATFORM: Final = re.compile("gpu-platform-.*|fn-[0-9]+-queue")
"""Credentials of the platform's processes and of workers: no template may read them."""


def _pattern(pattern: str) -> dict[str, Any]:
    return {"pattern": f"^{pattern}$"}


def _env_name(name: str) -> str:
    names.env_name(name)
    if name in RESERVED_ENV_NAMES or name.startswith(RESERVED_ENV_PREFIXES):
        msg = f"{text.quoted(name)} is reserved by the platform."
        raise ValueError(msg)
    return name


def _secret_name(name: str) -> str:
    names.dns_subdomain(name)
    if _SECRETS_OF_THE_PLATFORM.fullmatch(name):
        msg = f"{text.quoted(name)} is a Secret of the platform."
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
        description="Name of the GPU spec; it is also a label of the pods. At most 63 characters:"
        " letters, digits, '-', '_' and '.', starting with a lower-case letter or a digit.",
        examples=["h100-1g"],
    ),
]
Image = Annotated[
    str,
    AfterValidator(image.image_reference),
    Field(
        description="Container image. By default the platform's reservation image.",
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
        description="Memory of each pod, as request and limit: a Kubernetes quantity of whole"
        " bytes, at least 1Mi. Returned in canonical form.",
        examples=["16Gi"],
    ),
]
Gpu = Annotated[
    int,
    Field(ge=0, le=MAX_GPUS, description="GPUs of each pod.", examples=[1]),
]
Replicas = Annotated[
    int,
    Field(ge=0, le=MAX_REPLICAS, description="Desired number of pods.", examples=[2]),
]


class SecretKeyReference(SpecModel):
    """A key of a Secret in the pod's namespace."""

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
        description="Name of the Secret in the pod's namespace. Secrets of the platform"
        " (gpu-platform-…, fn-…-queue) are refused.",
        examples=["hf"],
    )
    key: Annotated[str, AfterValidator(names.config_key)] = Field(
        json_schema_extra={
            **_pattern(names.CONFIG_KEY),
            "minLength": 1,
            "maxLength": names.SUBDOMAIN_MAX,
        },
        description="Key in the Secret's data: letters, digits, '-', '_' and '.'.",
        examples=["token"],
    )


class EnvVarSource(SpecModel):
    """The source of an environment variable's value."""

    secret_key_ref: Annotated[SecretKeyReference, Field(description="Key of a Secret.")] = Field(
        alias="secretKeyRef", examples=[{"name": "hf", "key": "token"}]
    )


class EnvVar(SpecModel):
    """An environment variable of the container, with a value or the source of one."""

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
        description="Name of the variable: letters, digits, '-', '_' and '.', not starting with a"
        " digit. Names that the platform sets (LD_…, NVIDIA_…, KUBERNETES_…, SERVERLESS_…,"
        " CUDA_VISIBLE_DEVICES, SPEC_NAME, POOL_NAME, UNIT_NAME, GPU_COUNT, MEMORY_LIMIT) are"
        " refused.",
        examples=["MODEL"],
    )
    value: ContainerText = Field(
        default="",
        description="Value of the variable: at most 32 KiB, without control characters except tab"
        " and line ends. Everyone who can read the template can read it; put secret values in a"
        " Secret.",
        examples=["llama-3-8b"],
    )
    value_from: (
        Annotated[
            EnvVarSource,
            Field(description="Source of the value, instead of `value`."),
        ]
        | None
    ) = Field(
        default=None,
        alias="valueFrom",
        examples=[{"secretKeyRef": {"name": "hf", "key": "token"}}],
    )

    @model_validator(mode="after")
    def has_one_value(self) -> "EnvVar":
        """Refuse both, as Kubernetes does unless the value is empty."""
        if self.value_from is not None and "value" in self.model_fields_set:
            fault = PydanticCustomError(
                "two_values", "Cannot be combined with value. Use one of them."
            )
            raise ValidationError.from_exception_data(
                "EnvVar",
                [InitErrorDetails(type=fault, loc=("valueFrom",), input=self.value_from)],
            )
        return self


class Port(SpecModel):
    """A port of the container and of its Service."""

    name: Annotated[str, AfterValidator(names.port_name)] = Field(
        json_schema_extra={**_pattern(names.PORT_NAME), "maxLength": 15},
        description="Name of the port: at most 15 lower-case letters, digits and single '-', with"
        " at least one letter.",
        examples=["http"],
    )
    port: int = Field(ge=1, le=65535, description="Port number.", examples=[8080])
    protocol: Literal["TCP", "UDP", "SCTP"] = Field(
        default="TCP", description="Transport protocol.", examples=["TCP"]
    )


class PodTemplate(SpecModel):
    """Command, environment and ports of the container; an empty template equals none."""

    command: Annotated[tuple[ContainerText, ...], Field(strict=False)] = Field(
        default=(),
        max_length=MAX_ENTRIES,
        description="Command of the container; replaces the image's entry point.",
        examples=[["python", "-m", "http.server"]],
    )
    args: Annotated[tuple[ContainerText, ...], Field(strict=False)] = Field(
        default=(),
        max_length=MAX_ENTRIES,
        description="Arguments of the command.",
        examples=[["8080"]],
    )
    envs: Annotated[tuple[EnvVar, ...], Field(strict=False)] = Field(
        default=(),
        max_length=MAX_ENTRIES,
        description="Environment variables with unique names.",
        examples=[
            [{"name": "MODEL", "value": "llama-3-8b"}],
            [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}],
        ],
        json_schema_extra={"x-kubernetes-list-map-keys": ["name"]},
    )
    ports: Annotated[tuple[Port, ...], Field(strict=False)] = Field(
        default=(),
        max_length=MAX_ENTRIES,
        description="Ports with unique names and unique pairs of number and protocol. A template"
        " with ports has a Service.",
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
        """Refuse an empty program name, which would fail only on the node."""
        if command and not command[0].strip():
            msg = "The first entry must be a program."
            raise ValueError(msg)
        return command

    @field_validator("envs")
    @classmethod
    def env_names_differ(cls, envs: tuple[EnvVar, ...]) -> tuple[EnvVar, ...]:
        """Refuse repeated names, of which Kubernetes silently uses the last."""
        _refuse_repeats([env.name for env in envs], "name")
        return envs

    @field_validator("ports")
    @classmethod
    def ports_differ(cls, ports: tuple[Port, ...]) -> tuple[Port, ...]:
        """Refuse repeated ports, which a Deployment accepts and its Service does not."""
        _refuse_repeats([port.name for port in ports], "name")
        _refuse_repeats([f"{port.port}/{port.protocol}" for port in ports], "port")
        return ports

    @model_validator(mode="after")
    def fits_together(self) -> "PodTemplate":
        """Refuse a template whose values together are too large for a process."""
        values = [*self.command, *self.args, *(env.name + env.value for env in self.envs)]
        if sum(len(value.encode()) for value in values) > MAX_TEMPLATE_BYTES:
            msg = f"Command, args and envs together exceed {MAX_TEMPLATE_BYTES} bytes."
            raise ValueError(msg)
        return self


Template = Annotated[
    PodTemplate, Field(description="Command, arguments, environment and ports of the container.")
]


def _refuse_repeats(keys: Sequence[str], field: str) -> None:
    """Report the second of two equal entries, not the list."""
    seen: set[str] = set()
    for index, key in enumerate(keys):
        if key in seen:
            fault = PydanticCustomError(
                "duplicate", "{key} is not unique.", {"key": text.quoted(key)}
            )
            raise ValidationError.from_exception_data(
                "list", [InitErrorDetails(type=fault, loc=(index, field), input=key)]
            )
        seen.add(key)
