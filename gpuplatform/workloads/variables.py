"""The environment variables of a container: values, and references to their sources. Pure."""

from typing import Annotated, Any, Final

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from gpuplatform.formats import names, text
from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.validations import cel, none_of, validated
from gpuplatform.workloads.references import (
    ConfigMapKeyReference,
    ConfigMapReference,
    FieldReference,
    SecretKeyReference,
    SecretReference,
)

MAX_VALUE_BYTES = 32 * 1024

DEVICE_ENV_NAMES: Final = frozenset(
    {
        "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA_MIG_CONFIG_DEVICES",
        "NVIDIA_MIG_MONITOR_DEVICES",
        "NVIDIA_IMEX_CHANNELS",
        "AMD_VISIBLE_DEVICES",
    }
)
"""Variables by which a container runtime grants access to devices. Only device plugins, and the
platform for pods without GPUs, set them."""

PLATFORM_ENV_NAMES: Final = frozenset(
    {"SPEC_NAME", "POOL_NAME", "UNIT_NAME", "GPU_COUNT", "MEMORY_LIMIT"}
)
PLATFORM_ENV_PREFIX: Final = "SERVERLESS_"
"""Prefix of the variables that connect the container of a function to its sidecar."""


def _env_name(name: str) -> str:
    names.env_name(name)
    if name in DEVICE_ENV_NAMES:
        msg = (
            f"{text.quoted(name)} would give the container access to devices of other pods."
            " Remove it: the device plugin selects the devices."
        )
    elif name in PLATFORM_ENV_NAMES or name.startswith(PLATFORM_ENV_PREFIX):
        msg = f"{text.quoted(name)} is a variable that the platform sets. Choose another name."
    else:
        return name
    raise ValueError(msg)


def _prefix(prefix: str) -> str:
    names.env_name(prefix)
    if prefix.startswith(PLATFORM_ENV_PREFIX):
        msg = f"{text.quoted(prefix)} is a prefix of the platform. Choose another prefix."
    elif any(name.startswith(prefix) for name in DEVICE_ENV_NAMES):
        msg = (
            f"{text.quoted(prefix)} could give the container access to devices of other pods."
            " Choose another prefix."
        )
    else:
        return prefix
    raise ValueError(msg)


def _pattern(pattern: str) -> dict[str, Any]:
    return {"pattern": f"^{pattern}$"}


ContainerText = Annotated[
    str, AfterValidator(text.container_text), Field(max_length=MAX_VALUE_BYTES)
]


class EnvVarSource(SpecModel):
    """The source of an environment variable's value. It has exactly one field."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            cel(
                "[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef)]"
                ".exists_one(one, one)",
                "Must have exactly one of secretKeyRef, configMapKeyRef and fieldRef.",
            )
        )
    )

    secret_key_ref: (
        Annotated[
            SecretKeyReference,
            Field(description="Selects a key of a Secret in the pod's namespace."),
        ]
        | None
    ) = Field(default=None, alias="secretKeyRef", examples=[{"name": "hf", "key": "token"}])
    config_map_key_ref: (
        Annotated[
            ConfigMapKeyReference,
            Field(description="Selects a key of a ConfigMap in the pod's namespace."),
        ]
        | None
    ) = Field(default=None, alias="configMapKeyRef", examples=[{"name": "models", "key": "path"}])
    field_ref: (
        Annotated[FieldReference, Field(description="Selects a field of the pod.")] | None
    ) = Field(default=None, alias="fieldRef", examples=[{"fieldPath": "status.podIP"}])

    @model_validator(mode="after")
    def has_one_source(self) -> "EnvVarSource":
        """Require exactly one source."""
        if len(self.model_fields_set) != 1:
            msg = "Must have exactly one of secretKeyRef, configMapKeyRef and fieldRef."
            raise ValueError(msg)
        return self


class EnvVar(SpecModel):
    """An environment variable of the container, with a value or the source of a value."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            cel(
                "!(has(self.value) && has(self.valueFrom))",
                "value and valueFrom are mutually exclusive.",
            )
        )
    )

    name: Annotated[str, AfterValidator(_env_name)] = Field(
        json_schema_extra={
            **_pattern(names.ENV_NAME),
            "maxLength": names.ENV_NAME_MAX,
            **validated(
                none_of(
                    PLATFORM_ENV_NAMES,
                    [PLATFORM_ENV_PREFIX],
                    "The platform sets the variable. Choose another name.",
                ),
                none_of(
                    DEVICE_ENV_NAMES,
                    [],
                    "The variable would give access to devices of other pods. Remove it.",
                ),
            ),
        },
        description="Name of the environment variable. It consists of letters, digits, '-', '_'"
        " and '.', and does not start with a digit. Rejected are the variables that the platform"
        " sets (SPEC_NAME, POOL_NAME, UNIT_NAME, GPU_COUNT, MEMORY_LIMIT and SERVERLESS_…), and"
        " variables that grant access to devices (NVIDIA_VISIBLE_DEVICES,"
        " NVIDIA_MIG_CONFIG_DEVICES, NVIDIA_MIG_MONITOR_DEVICES, NVIDIA_IMEX_CHANNELS and"
        " AMD_VISIBLE_DEVICES).",
        examples=["MODEL"],
    )
    value: ContainerText = Field(
        default="",
        description="Value of the environment variable, of at most 32 KiB. It must not contain"
        " the character U+0000. It reaches the program exactly as"
        " sent; `$$` and `$(NAME)` are not expanded. The value is not confidential; use a Secret"
        " for sensitive data.",
        examples=["llama-3-8b"],
    )
    value_from: (
        Annotated[
            EnvVarSource,
            Field(description="Source of the value. Cannot be used if value is set."),
        ]
        | None
    ) = Field(
        default=None,
        alias="valueFrom",
        examples=[{"secretKeyRef": {"name": "hf", "key": "token"}}],
    )

    @model_validator(mode="after")
    def has_one_value(self) -> "EnvVar":
        """Reject a variable with both fields, even if the value is empty."""
        if self.value_from is not None and "value" in self.model_fields_set:
            error = PydanticCustomError(
                "two_values", "Cannot be combined with value. Use one of them."
            )
            raise ValidationError.from_exception_data(
                "EnvVar",
                [InitErrorDetails(type=error, loc=("valueFrom",), input=self.value_from)],
            )
        return self


class EnvFromSource(SpecModel):
    """A Secret or a ConfigMap whose keys become environment variables."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            cel(
                "has(self.secretRef) != has(self.configMapRef)",
                "Must have exactly one of secretRef and configMapRef.",
            )
        )
    )

    prefix: (
        Annotated[
            str,
            AfterValidator(_prefix),
            Field(
                json_schema_extra={**_pattern(names.ENV_NAME), "maxLength": names.ENV_NAME_MAX},
                description="Text before each key in the names of the variables. It must not start"
                " with SERVERLESS_, and must not be the start of a reserved name such as NVIDIA_.",
                examples=["HF_"],
            ),
        ]
        | None
    ) = None
    secret_ref: (
        Annotated[SecretReference, Field(description="Selects a Secret in the pod's namespace.")]
        | None
    ) = Field(default=None, alias="secretRef", examples=[{"name": "hf"}])
    config_map_ref: (
        Annotated[
            ConfigMapReference, Field(description="Selects a ConfigMap in the pod's namespace.")
        ]
        | None
    ) = Field(default=None, alias="configMapRef", examples=[{"name": "models"}])

    @model_validator(mode="after")
    def has_one_source(self) -> "EnvFromSource":
        """Require exactly one source."""
        if (self.secret_ref is None) == (self.config_map_ref is None):
            msg = "Must have exactly one of secretRef and configMapRef."
            raise ValueError(msg)
        return self
