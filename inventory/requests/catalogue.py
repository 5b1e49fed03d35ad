"""The bodies of the catalogue's routes: the size of a GPU spec and its stock. Pure."""

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
"""The column of each field that can be changed, by the field's name in the API."""


def _or_empty(check: Callable[[str], str]) -> AfterValidator:
    """Accept the empty string too, which means none."""
    return AfterValidator(lambda text: check(text) if text else text)


Description = Annotated[
    str,
    AfterValidator(container_text),
    Field(max_length=200, description="Description for people.", examples=["Two H100"]),
]
Cpu = Annotated[
    str,
    _or_empty(quantity.cpu),
    Field(
        description="CPU of a unit, as request and limit: a Kubernetes quantity such as 4 or"
        " 500m; empty: none.",
        examples=["8"],
    ),
]
Memory = Annotated[
    str,
    _or_empty(quantity.memory),
    Field(
        description="Memory of a unit, as request and limit: a Kubernetes quantity; empty: none.",
        examples=["64Gi"],
    ),
]
GpuCount = Annotated[int, Field(ge=0, le=MAX_GPUS, description="GPUs of a unit.", examples=[2])]
Product = Annotated[
    str,
    _or_empty(names.label_value),
    Field(
        description="Value of the node label nvidia.com/gpu.product; empty: any.",
        examples=["NVIDIA-H100-80GB-HBM3"],
    ),
]
WarmTarget = Annotated[
    int,
    Field(
        ge=0,
        le=MAX_WARM_TARGET,
        description="Number of ready stock units that the platform maintains; 0: none.",
        examples=[0],
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
    """The fields of both bodies; None for an omitted one."""

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
        description="Whether the platform ignores the warm target for now.",
        examples=[False],
    )
    restock_on_delete: bool | None = Field(
        default=None,
        alias="restockOnDelete",
        description="Whether a new stock unit replaces each deleted unit.",
        examples=[False],
    )
    may_preempt: bool | None = Field(
        default=None,
        alias="mayPreempt",
        description="Whether a unit may evict other pods to get the GPUs that its stock held.",
        examples=[True],
    )
    enabled: bool | None = Field(
        default=None,
        description="Whether stock of the spec is seeded and claimed. Disabling a spec removes its"
        " stock; its units stay.",
        examples=[True],
    )

    def given(self) -> dict[str, Any]:
        """Return the given fields that have a column, in canonical form, by their API names."""
        given = self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        if self.placement is not None:
            given["placement"] = self.placement.normalised()
        return {name: value for name, value in given.items() if name in COLUMNS}

    def columns(self) -> dict[str, Any]:
        """Return the values of the given fields by column."""
        return {COLUMNS[name]: value for name, value in self.given().items()}


class GpuSpecCreate(_Settings):
    """Creates a GPU spec in the catalogue."""

    operation_id: OperationID = Field(alias="operationID")
    name: SpecName = Field(
        description="Name of the GPU spec; it is also a label. At most 63 characters: letters,"
        " digits, '-', '_' and '.', starting with a lower-case letter or a digit.",
        examples=["h100-2g"],
    )

    def payload(self) -> dict[str, Any]:
        """Return the payload of the request hash: without operationID and defaults."""
        return {k: v for k, v in self.given().items() if v != _DEFAULTS[k]}


class GpuSpecPatch(_Settings):
    """Changes a GPU spec: a given field replaces, an omitted one stays.

    Existing stock and units keep the values of their seeding.
    """

    operation_id: OperationID = Field(alias="operationID")

    @model_validator(mode="after")
    def changes_something(self) -> "GpuSpecPatch":
        """Refuse an operation that changes nothing."""
        if not self.model_fields_set - {"operation_id"}:
            msg = "Give at least one field to change."
            raise ValueError(msg)
        return self

    def payload(self) -> dict[str, Any]:
        """Return the given fields, defaults included: they replace too."""
        return self.given()
