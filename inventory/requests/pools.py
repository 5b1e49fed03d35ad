"""The bodies of the stock pool routes: the declared spec plus the request's fields."""

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
        description="Name of the pool: a DNS label of at most 58 characters. By default generated"
        " from specName and operationID.",
        examples=["h100"],
    ),
]
Namespace = Annotated[
    str,
    AfterValidator(names.dns_label),
    Field(
        json_schema_extra={"pattern": f"^{names.DNS_LABEL}$", "maxLength": names.LABEL_MAX},
        description="Kubernetes namespace of the pool.",
        examples=[DEFAULT_NAMESPACE],
    ),
]


class PoolAddress(SpecModel):
    """The fields of a creation besides the spec; pydantic puts those of the last base first."""

    operation_id: OperationID = Field(alias="operationID")
    name: PoolName | None = None
    namespace: Namespace = DEFAULT_NAMESPACE


_ADDRESS = frozenset(declared.alias or name for name, declared in PoolAddress.model_fields.items())


class StockPoolCreate(StockPoolSpec, PoolAddress):
    """Creates a stock pool."""

    def spec(self) -> StockPoolSpec:
        """Return the spec alone."""
        payload = self.normalised()
        return StockPoolSpec.parse({k: v for k, v in payload.items() if k not in _ADDRESS})

    def pool_name(self, *, tenant: str) -> str:
        """Return the requested name, or the generated one."""
        return self.name or generated_pool_name(
            self.spec_name, tenant=tenant, operation_id=self.operation_id
        )

    def payload(self) -> dict[str, Any]:
        """Return the payload of the request hash: without operationID and defaults."""
        payload = self.normalised()
        del payload["operationID"]
        return payload


class StockPoolPatch(SpecModel):
    """Changes a stock pool: a given field replaces, an omitted one stays."""

    operation_id: OperationID = Field(alias="operationID")
    replicas: Replicas | None = None
    image: Image | None = None
    template: Template | None = None

    @model_validator(mode="after")
    def changes_something(self) -> "StockPoolPatch":
        """Refuse an operation that changes nothing."""
        if self.replicas is None and self.image is None and self.template is None:
            msg = "Give at least one of replicas, image and template."
            raise ValueError(msg)
        return self

    def payload(self) -> dict[str, Any]:
        """Return the given fields without the operationID; an empty template replaces."""
        payload = self.normalised()
        del payload["operationID"]
        return payload

    def applied_to(self, spec: StockPoolSpec) -> StockPoolSpec:
        """Return `spec` with the given fields replaced."""
        return StockPoolSpec.parse({**spec.normalised(), **self.payload()})
