"""References of a template to Secrets, ConfigMaps and fields of the pod. Pure."""

import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from gpuplatform.formats import names, text
from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.validations import cel, validated

_SECRETS_OF_THE_PLATFORM: Final = re.compile("gpu-platform-.*|fn-[0-9]+-queue")
"""Secrets with credentials of the platform and of workers. Templates must not reference them."""

_PLAIN_FIELD: Final = (
    r"metadata\.(name|namespace|uid)|spec\.(nodeName|serviceAccountName)"
    r"|status\.(hostIP|podIP|podIPs)"
)
_KEYED_FIELD: Final = r"metadata\.(labels|annotations)\['[A-Za-z0-9._/-]+'\]"
_FIELD_PATH_MAX: Final = 400


def _secret_name(name: str) -> str:
    names.dns_subdomain(name)
    if _SECRETS_OF_THE_PLATFORM.fullmatch(name):
        msg = f"{text.quoted(name)} is a Secret of the platform. Use another Secret."
        raise ValueError(msg)
    return name


def _field_path(path: str) -> str:
    if len(path) <= _FIELD_PATH_MAX:
        if re.fullmatch(_PLAIN_FIELD, path):
            return path
        if re.fullmatch(_KEYED_FIELD, path):
            names.label_key(path.split("'")[1])
            return path
    msg = (
        f"{text.quoted(path)} is not a field of the pod that a variable can have. Use"
        " metadata.name, metadata.namespace, metadata.uid, metadata.labels['KEY'],"
        " metadata.annotations['KEY'], spec.nodeName, spec.serviceAccountName, status.hostIP,"
        " status.podIP or status.podIPs."
    )
    raise ValueError(msg)


_SUBDOMAIN: Final[dict[str, Any]] = {
    "pattern": f"^{names.DNS_SUBDOMAIN}$",
    "minLength": 1,
    "maxLength": names.SUBDOMAIN_MAX,
}
SecretName = Annotated[
    str,
    AfterValidator(_secret_name),
    Field(
        json_schema_extra={
            **_SUBDOMAIN,
            **validated(
                cel(
                    "!self.startsWith('gpu-platform-') && !self.matches('^fn-[0-9]+-queue$')",
                    "Secrets of the platform cannot be referenced.",
                )
            ),
        },
        description="Name of a Secret in the namespace of the pod. Secrets of the platform, such"
        " as gpu-platform-… and fn-…-queue, are rejected.",
        examples=["hf"],
    ),
]
ConfigMapName = Annotated[
    str,
    AfterValidator(names.dns_subdomain),
    Field(
        json_schema_extra=_SUBDOMAIN,
        description="Name of a ConfigMap in the namespace of the pod.",
        examples=["models"],
    ),
]
Key = Annotated[
    str,
    AfterValidator(names.config_key),
    Field(
        json_schema_extra={
            "pattern": f"^{names.CONFIG_KEY}$",
            "minLength": 1,
            "maxLength": names.SUBDOMAIN_MAX,
        },
        description="Key in the data. It consists of letters, digits, '-', '_' and '.'.",
        examples=["token"],
    ),
]
Optional = Annotated[
    bool,
    Field(
        description="Whether the pod can start if the object or the key does not exist. Defaults"
        " to false.",
    ),
]


class SecretKeyReference(SpecModel):
    """A reference to a key of a Secret in the namespace of the pod."""

    name: SecretName
    key: Key
    optional: Optional = False


class ConfigMapKeyReference(SpecModel):
    """A reference to a key of a ConfigMap in the namespace of the pod."""

    name: ConfigMapName
    key: Key
    optional: Optional = False


class FieldReference(SpecModel):
    """A reference to a field of the pod."""

    field_path: Annotated[str, AfterValidator(_field_path)] = Field(
        alias="fieldPath",
        json_schema_extra={
            "pattern": f"^({_PLAIN_FIELD}|{_KEYED_FIELD})$",
            "maxLength": _FIELD_PATH_MAX,
        },
        description="Path of the field: metadata.name, metadata.namespace, metadata.uid,"
        " metadata.labels['KEY'], metadata.annotations['KEY'], spec.nodeName,"
        " spec.serviceAccountName, status.hostIP, status.podIP or status.podIPs.",
        examples=["status.podIP"],
    )


class SecretReference(SpecModel):
    """A reference to a Secret in the namespace of the pod."""

    name: SecretName
    optional: Optional = False


class ConfigMapReference(SpecModel):
    """A reference to a ConfigMap in the namespace of the pod."""

    name: ConfigMapName
    optional: Optional = False


class PullSecret(SpecModel):
    """A reference to a Secret with the credentials of a registry."""

    name: SecretName
