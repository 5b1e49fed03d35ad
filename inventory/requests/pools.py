"""Request bodies of the stock pool routes: the declared spec and the fields of the request."""

from typing import Annotated

from pydantic import Field

from gpuplatform.formats.request import ChangeBody, DnsLabel, OperationBody, OwnName
from gpuplatform.workloads.template import Image, Replicas, Template
from inventory.core.names import generated_pool_name
from inventory.core.spec import StockPoolSpec

DEFAULT_NAMESPACE = "default"

PoolName = Annotated[
    OwnName,
    Field(
        description="Name of the stock pool: a DNS label of at most 58 characters. By default,"
        " the name is generated from specName and operationID.",
        examples=["h100"],
    ),
]
Namespace = Annotated[
    DnsLabel,
    Field(
        description="Kubernetes namespace of the stock pool.",
        examples=[DEFAULT_NAMESPACE],
    ),
]


class PoolAddress(OperationBody):
    """The fields of a creation request besides the spec.

    This class is the last base of `StockPoolCreate`, because pydantic puts the fields of the last
    base first.
    """

    name: PoolName | None = None
    namespace: Namespace = DEFAULT_NAMESPACE


_ADDRESS = frozenset(declared.alias or name for name, declared in PoolAddress.model_fields.items())


class StockPoolCreate(StockPoolSpec, PoolAddress):
    """The request body that creates a stock pool."""

    def spec(self) -> StockPoolSpec:
        """Return the spec without the other fields of the request."""
        payload = self.normalised()
        return StockPoolSpec.parse({k: v for k, v in payload.items() if k not in _ADDRESS})

    def pool_name(self, *, tenant: str) -> str:
        """Return the requested name, or a generated one if the request has no name."""
        return self.name or generated_pool_name(
            self.spec_name, tenant=tenant, operation_id=self.operation_id
        )


class StockPoolPatch(ChangeBody):
    """The request body that changes a stock pool. Omitted fields are unchanged."""

    replicas: Replicas | None = None
    image: Image | None = None
    template: Template | None = None

    def applied_to(self, spec: StockPoolSpec) -> StockPoolSpec:
        """Return `spec` with the specified fields replaced; an empty template is a value."""
        return StockPoolSpec.parse({**spec.normalised(), **self.payload()})
