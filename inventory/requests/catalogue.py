"""The bodies of the catalogue's routes: what a GPU spec gives, and how much stock is kept of it.

Pure. The names of the fields are those of the API; `COLUMNS` says which column each one fills.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from gpuplatform.formats import names, quantity
from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.operation_id import OperationID
from gpuplatform.formats.text import container_text
from gpuplatform.workloads.placement import Placement
from gpuplatform.workloads.template import MAX_GPUS, SpecName

MAX_WARM_TARGET = 1000

COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "description": "description",
        "cpu": "cpu",
        "memory": "memory",
        "gpu": "gpu",
        "product": "product",
        "placement": "placement",
        "warmTarget": "warm_target",
        "topUpPaused": "is_top_up_paused",
        "restockOnDelete": "restocks_on_delete",
        "mayPreempt": "may_preempt",
        "enabled": "is_enabled",
    }
)
"""The API's name of each field that can be changed, and its column."""


def _or_empty(check: Callable[[str], str]) -> AfterValidator:
    """Take the empty text too: it says that there is none."""
    return AfterValidator(lambda text: check(text) if text else text)


Description = Annotated[
    str, AfterValidator(container_text), Field(max_length=200, description="For people.")
]
Cpu = Annotated[
    str,
    _or_empty(quantity.cpu),
    Field(
        description="CPU of one unit, request and limit: a Kubernetes quantity such as 4 or 500m;"
        " empty: none.",
        examples=["8"],
    ),
]
Memory = Annotated[
    str,
    _or_empty(quantity.memory),
    Field(
        description="Memory of one unit, request and limit: a Kubernetes quantity; empty: none.",
        examples=["64Gi"],
    ),
]
GpuCount = Annotated[int, Field(ge=0, le=MAX_GPUS, description="GPUs of one unit.", examples=[1])]
Product = Annotated[
    str,
    _or_empty(names.label_value),
    Field(
        description="The node label nvidia.com/gpu.product; empty: any.",
        examples=["NVIDIA-H100-80GB-HBM3"],
    ),
]
WarmTarget = Annotated[
    int,
    Field(
        ge=0,
        le=MAX_WARM_TARGET,
        description="How many ready stock units are kept; 0: only what is seeded.",
        examples=[2],
    ),
]


_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "description": "",
        "cpu": "",
        "memory": "",
        "gpu": 0,
        "product": "",
        "placement": {},
        "warmTarget": 0,
        "topUpPaused": False,
        "restockOnDelete": False,
        "mayPreempt": True,
        "enabled": True,
    }
)


class _Settings(SpecModel):
    """What both bodies may say; one that is left out has its default, or stays."""

    description: Description | None = None
    cpu: Cpu | None = None
    memory: Memory | None = None
    gpu: GpuCount | None = None
    product: Product | None = None
    placement: Placement | None = None
    warm_target: WarmTarget | None = Field(default=None, alias="warmTarget")
    top_up_paused: bool | None = Field(
        default=None,
        alias="topUpPaused",
        description="Whether the warm target is left alone for now.",
        examples=[False],
    )
    restock_on_delete: bool | None = Field(
        default=None,
        alias="restockOnDelete",
        description="Whether a deleted unit is replaced by a new stock unit.",
        examples=[False],
    )
    may_preempt: bool | None = Field(
        default=None,
        alias="mayPreempt",
        description="Whether a unit may evict others for the GPU that its stock held.",
        examples=[True],
    )
    enabled: bool | None = Field(
        default=None,
        description="Off: nothing is claimed or seeded, its stock is removed, its units stay.",
        examples=[True],
    )

    def given(self) -> dict[str, Any]:
        """Return the given fields that are columns, in one spelling, by their API names."""
        given = self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        if self.placement is not None:
            given["placement"] = self.placement.normalised()
        return {name: value for name, value in given.items() if name in COLUMNS}

    def columns(self) -> dict[str, Any]:
        """Return the columns that the given fields fill."""
        return {COLUMNS[name]: value for name, value in self.given().items()}


class GpuSpecCreate(_Settings):
    """Enters a GPU spec into the catalogue."""

    operation_id: OperationID = Field(alias="operationID")
    name: SpecName = Field(
        description="The GPU spec's name, by which it is asked for. Kept as a label, so at most 63"
        " characters: letters, digits, '-', '_' and '.', starting with a lower-case letter or a"
        " digit.",
    )

    def payload(self) -> dict[str, Any]:
        """Return what the request hash covers: no operationID, defaults left out."""
        return {k: v for k, v in self.given().items() if v != _DEFAULTS[k]}


class GpuSpecPatch(_Settings):
    """Changes an entry of the catalogue: a given field replaces, one that is left out stays.

    What runs and what is in stock keeps the values it was seeded with.
    """

    operation_id: OperationID = Field(alias="operationID")

    @model_validator(mode="after")
    def changes_something(self) -> "GpuSpecPatch":
        """An operation that changes nothing is a mistake of the caller."""
        if not self.model_fields_set - {"operation_id"}:
            msg = "Give at least one field to change."
            raise ValueError(msg)
        return self

    def payload(self) -> dict[str, Any]:
        """Return the given fields: a default replaces as well."""
        return self.given()
