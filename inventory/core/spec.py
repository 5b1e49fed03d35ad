"""Spec and status of a stock pool.

The request validation, the OpenAPI components, the CRD schema and the parser of the reconciler are
derived from these models. Pure.
"""

from typing import Any

from pydantic import Field
from typing_extensions import override

from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.status import ObservedStatus
from gpuplatform.workloads.template import Gpu, Image, Memory, Replicas, SpecName, Template


class StockPoolSpec(SpecModel):
    """The desired state of a stock pool: a number of pods of one GPU spec."""

    spec_name: SpecName = Field(alias="specName")
    image: Image | None = None
    memory: Memory | None = None
    gpu: Gpu = 0
    replicas: Replicas
    template: Template | None = None

    @override
    def normalised(self) -> dict[str, Any]:
        """Return the canonical JSON object, without an empty template."""
        payload = super().normalised()
        if not payload.get("template", True):
            del payload["template"]
        return payload


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
