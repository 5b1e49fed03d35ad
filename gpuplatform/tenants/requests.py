"""Request bodies of the tenant routes. Pure."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from gpuplatform.formats import names
from gpuplatform.formats.request import ChangeBody, DnsLabel, OperationBody
from gpuplatform.formats.text import page_text
from gpuplatform.tenancy.phases import MAX_DISPLAY_NAME, MAX_WEIGHT

NAMESPACE_PREFIX: Final = "tenant-"
NAME_MAX: Final = names.LABEL_MAX - len(NAMESPACE_PREFIX)
"""Maximum length of the name of a tenant, whose namespace has a prefix by default."""


def _tenant_name(text: str) -> str:
    return names.dns_label(text, max_length=NAME_MAX)


TenantName = Annotated[
    str,
    AfterValidator(_tenant_name),
    Field(
        json_schema_extra={"pattern": f"^{names.DNS_LABEL}$", "maxLength": NAME_MAX},
        description="Name of the tenant: a DNS label of at most 56 characters.",
        examples=["acme"],
    ),
]
DisplayName = Annotated[
    str,
    AfterValidator(page_text),
    Field(
        max_length=MAX_DISPLAY_NAME,
        description="Display name of the tenant.",
        examples=["ACME research"],
    ),
]
Weight = Annotated[
    int,
    Field(
        ge=1,
        le=MAX_WEIGHT,
        description="Weight by which the usage of the tenant is divided in the capacity queue.",
        examples=[1],
    ),
]


class TenantCreate(OperationBody):
    """The request body that creates a tenant."""

    name: TenantName
    namespace: DnsLabel | None = Field(
        default=None,
        description="Namespace of the tenant. By default `tenant-<name>`.",
        examples=["tenant-acme"],
    )
    adopts_namespace: bool = Field(
        default=False,
        alias="adoptNamespace",
        description="Confirms that the tenant gets the existing namespace in `namespace`, which"
        " the platform never deletes.",
        examples=[False],
    )
    display_name: DisplayName = Field(default="", alias="displayName")
    weight: Weight = 1

    @property
    def namespace_name(self) -> str:
        """The namespace of the tenant."""
        return self.namespace or f"{NAMESPACE_PREFIX}{self.name}"


class TenantPatch(ChangeBody):
    """The request body that changes a tenant. Omitted fields are unchanged."""

    display_name: DisplayName | None = Field(default=None, alias="displayName")
    weight: Weight | None = None


class TenantAction(OperationBody):
    """The request body that suspends or resumes a tenant."""
