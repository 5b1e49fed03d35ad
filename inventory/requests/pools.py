"""Request bodies of the stock pool routes: the declared spec and the fields of the request."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field
from typing_extensions import override

from gpuplatform.formats.namespaces import POOL_NAMESPACE
from gpuplatform.formats.request import ChangeBody, DnsLabel, OperationBody, OwnName
from gpuplatform.workloads.template import EndlessTemplate, Image, Replicas
from inventory.core.names import generated_pool_name
from inventory.core.spec import PoolPlacement, StockPoolSpec

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
        examples=[POOL_NAMESPACE],
    ),
]


class PoolAddress(OperationBody):
    """The fields of a creation request besides the spec.

    This class is the last base of `StockPoolCreate`, because pydantic puts the fields of the last
    base first.
    """

    name: PoolName | None = None
    namespace: Namespace = POOL_NAMESPACE


_ADDRESS = frozenset(declared.alias or name for name, declared in PoolAddress.model_fields.items())


INHERITED: Final = ("resourceName", "resources", "placement")
"""The fields whose values come from the GPU spec in the catalogue if a request omits them."""


def _without_defaults(schema: dict[str, Any]) -> None:
    """Remove the defaults of the inherited fields, which clients would send to the API.

    The resources have no examples either, so that the example of a request inherits them.
    """
    for name in INHERITED:
        schema["properties"][name].pop("default", None)
    for name in ("resourceName", "resources"):
        schema["properties"][name].pop("examples", None)


class StockPoolCreate(StockPoolSpec, PoolAddress):
    """The request body that creates a stock pool.

    The GPU spec must be in the catalogue. If `resourceName`, `resources` or `placement` is
    omitted, the value comes from the GPU spec.
    """

    model_config = ConfigDict(json_schema_extra=_without_defaults)

    @override
    def payload(self) -> dict[str, Any]:
        """Return the fields that are stored and hashed.

        Explicit defaults of the inherited fields are kept, so that they replace the catalogue's
        values.
        """
        given = self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        explicit: dict[str, Any] = {name: given[name] for name in INHERITED if name in given}
        if self.placement is not None:
            explicit["placement"] = self.placement.normalised()
        return {**super().payload(), **explicit}

    def spec(self, inherited: Mapping[str, Any] | None = None) -> StockPoolSpec:
        """Return the spec, with omitted fields from `inherited`, the fields of the GPU spec."""
        return pool_spec(self.payload(), inherited or {})

    def pool_name(self, *, tenant: str) -> str:
        """Return the requested name, or a generated one if the request has no name."""
        return self.name or generated_pool_name(
            self.spec_name, tenant=tenant, operation_id=self.operation_id
        )


def pool_spec(payload: Mapping[str, Any], inherited: Mapping[str, Any]) -> StockPoolSpec:
    """Return the spec of the payload of a creation, with omitted fields from `inherited`."""
    given = {name: value for name, value in payload.items() if name not in _ADDRESS}
    known: dict[str, Any] = {name: inherited[name] for name in INHERITED if name in inherited}
    return StockPoolSpec.parse({**known, **given})


class StockPoolPatch(ChangeBody):
    """The request body that changes a stock pool. Omitted fields are unchanged."""

    replicas: Replicas | None = None
    image: Image | None = None
    placement: PoolPlacement | None = None
    template: EndlessTemplate | None = None

    def applied_to(self, spec: Mapping[str, Any]) -> StockPoolSpec:
        """Return a stored spec with the specified fields replaced; an empty template is a value.

        The stored spec can violate rules if the change replaces the invalid fields.

        Raises:
            InvalidSpec: If the result violates a rule.
        """
        return StockPoolSpec.parse({**spec, **self.payload()})
