"""The declaration of a stock pool: its spec and its status.

The request validation, the OpenAPI components, the schema of the CRD and the parser of the
reconciler (`parse_spec`) follow from these models. Pure.
"""

from typing import Any

from pydantic import Field
from typing_extensions import override

from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.status import ObservedStatus
from gpuplatform.workloads.template import Gpu, Image, Memory, Replicas, SpecName, Template


class StockPoolSpec(SpecModel):
    """GPU capacity that an operator declares: a number of pods of one GPU spec."""

    spec_name: SpecName = Field(alias="specName")
    image: Image | None = None
    memory: Memory | None = None
    gpu: Gpu = 0
    replicas: Replicas
    template: Template | None = None

    @override
    def normalised(self) -> dict[str, Any]:
        """Return the JSON object for hash and resource; an empty template is left out."""
        payload = super().normalised()
        if not payload.get("template", True):
            del payload["template"]
        return payload


class StockPoolStatus(ObservedStatus):
    """The last observed state; only the reconciler writes it."""

    available: int = Field(
        default=0, ge=0, description="Number of pods that are available.", examples=[2]
    )
    allocated: int = Field(
        default=0,
        ge=0,
        description="Number of desired pods that are not available.",
        examples=[0],
    )
    replicas: int = Field(
        default=0, ge=0, description="Pods that exist, ready or not.", examples=[2]
    )
    selector: str | None = Field(
        default=None,
        max_length=200,
        description="The label selector of the pods, for `kubectl scale` and autoscalers.",
        examples=["runtime.lokiwager.io/pool=h100"],
    )
    service_name: str | None = Field(
        default=None,
        alias="serviceName",
        max_length=63,
        description="Service of the pods; absent if the template has no ports.",
        examples=["pool-h100"],
    )


def parse_spec(raw: object) -> StockPoolSpec:
    """Parse the `.spec` of a resource, which may have been written with kubectl.

    Raises:
        InvalidSpec: it breaks rules; `details` has each fault with its path.
    """
    return StockPoolSpec.parse(raw)
