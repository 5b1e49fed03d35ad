"""The bodies of the stock pool routes: the declared spec plus what a request adds to it."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from gpuplatform.formats import names
from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.operation_id import OperationID
from gpuplatform.workloads.template import Image, Replicas, Template
from inventory.core.names import generated_pool_name
from inventory.core.spec import StockPoolSpec

DEFAULT_NAMESPACE = "default"


def _own_name(name: str) -> str:
    return names.dns_label(name, max_length=names.OWN_NAME_MAX)


PoolName = Annotated[
    str,
    AfterValidator(_own_name),
    Field(
        json_schema_extra={
            "pattern": f"^{names.DNS_LABEL}$",
            "maxLength": names.OWN_NAME_MAX,
        },
        description="The pool's name: a DNS label of at most 58 characters. Generated from"
        " specName and"
        " operationID when it is left out.",
        examples=["h100"],
    ),
]
Namespace = Annotated[
    str,
    AfterValidator(names.dns_label),
    Field(
        json_schema_extra={"pattern": f"^{names.DNS_LABEL}$", "maxLength": names.LABEL_MAX},
        description="The Kubernetes namespace of the pool.",
        examples=[DEFAULT_NAMESPACE],
    ),
]


class PoolAddress(SpecModel):
    """What a create adds to the spec; before it, since pydantic keeps the last base first."""

    operation_id: OperationID = Field(alias="operationID")
    name: PoolName | None = None
    namespace: Namespace = DEFAULT_NAMESPACE


_ADDRESS = frozenset(declared.alias or name for name, declared in PoolAddress.model_fields.items())


class StockPoolCreate(StockPoolSpec, PoolAddress):
    """Asks for a new stock pool."""

    def spec(self) -> StockPoolSpec:
        """Return the spec alone."""
        payload = self.normalised()
        return StockPoolSpec.parse({k: v for k, v in payload.items() if k not in _ADDRESS})

    def pool_name(self, *, tenant: str) -> str:
        """Return the name that was asked for, or the generated one."""
        return self.name or generated_pool_name(
            self.spec_name, tenant=tenant, operation_id=self.operation_id
        )

    def payload(self) -> dict[str, Any]:
        """Return what the request hash covers: no operationID, defaults left out."""
        payload = self.normalised()
        del payload["operationID"]
        return payload


class StockPoolPatch(SpecModel):
    """Changes a stock pool: a given field replaces, one that is left out stays."""

    operation_id: OperationID = Field(alias="operationID")
    replicas: Replicas | None = None
    image: Image | None = None
    template: Template | None = None

    @model_validator(mode="after")
    def changes_something(self) -> "StockPoolPatch":
        """An operation that changes nothing is a mistake of the caller."""
        if self.replicas is None and self.image is None and self.template is None:
            msg = "Give at least one of replicas, image and template."
            raise ValueError(msg)
        return self

    def payload(self) -> dict[str, Any]:
        """Return the given fields without the operationID; `{}` as template stays: it replaces."""
        payload = self.normalised()
        del payload["operationID"]
        return payload

    def applied_to(self, spec: StockPoolSpec) -> StockPoolSpec:
        """Return `spec` with the given fields replaced."""
        return StockPoolSpec.parse({**spec.normalised(), **self.payload()})
