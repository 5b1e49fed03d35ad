"""Spec and status of a stock pool.

The request validation, the OpenAPI components, the CRD schema and the parser of the reconciler are
derived from these models. Pure.
"""

from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, model_validator
from typing_extensions import override

from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.status import ObservedStatus
from gpuplatform.formats.validations import validated
from gpuplatform.workloads.placement import Placement
from gpuplatform.workloads.resources import (
    GPU_RESOURCE,
    ONE_COUNT,
    ResourceName,
    Resources,
    counted_once,
)
from gpuplatform.workloads.template import (
    EndlessTemplate,
    Gpu,
    Image,
    Memory,
    Replicas,
    SpecName,
)

PoolPlacement = Annotated[
    Placement, Field(description="Constraints on the nodes that can run the pods.")
]


class StockPoolSpec(SpecModel):
    """The desired state of a stock pool: a number of pods of one GPU spec."""

    model_config = ConfigDict(json_schema_extra=validated(ONE_COUNT))

    spec_name: SpecName = Field(alias="specName")
    image: Image | None = None
    memory: Memory | None = None
    gpu: Gpu = 0
    resource_name: ResourceName = Field(default=GPU_RESOURCE, alias="resourceName")
    resources: Resources = Field(default={})
    replicas: Replicas
    placement: PoolPlacement | None = None
    template: EndlessTemplate | None = None

    @model_validator(mode="after")
    def resources_are_counted_once(self) -> Self:
        """Reject further resources that contain the resource of the GPUs."""
        counted_once(self.resource_name, self.resources)
        return self

    @override
    def normalised(self) -> dict[str, Any]:
        """Return the canonical JSON object, without an empty template or placement."""
        payload = super().normalised()
        return {
            key: value
            for key, value in payload.items()
            if value != {} or key not in {"placement", "template"}
        }


class StockPoolStatus(ObservedStatus):
    """The last observed state of a stock pool. Only the reconciler writes it."""

    available: int = Field(default=0, ge=0, description="Number of available pods.", examples=[2])
    allocated: int = Field(
        default=0,
        ge=0,
        description="Number of desired pods that are not available.",
        examples=[0],
    )
    replicas: int = Field(
        default=0,
        ge=0,
        description="Number of existing pods, whether they are ready or not.",
        examples=[2],
    )
    selector: str | None = Field(
        default=None,
        max_length=200,
        description="Label selector of the pods, used by `kubectl scale` and autoscalers.",
        examples=["runtime.lokiwager.io/pool=h100"],
    )
    service_name: str | None = Field(
        default=None,
        alias="serviceName",
        max_length=63,
        description="Name of the Service of the pods; absent if the template has no ports.",
        examples=["pool-h100"],
    )
