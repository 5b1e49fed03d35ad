"""Request bodies of the GPU spec routes. Pure."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Field, field_validator, model_validator
from typing_extensions import override

from gpuplatform.formats import image, names, quantity
from gpuplatform.formats.model import reject_duplicates
from gpuplatform.formats.request import ChangeBody, OperationBody
from gpuplatform.formats.text import page_text
from gpuplatform.workloads.placement import Placement
from gpuplatform.workloads.references import PullSecret
from gpuplatform.workloads.resources import (
    GPU_RESOURCE,
    ResourceName,
    Resources,
    counted_once,
)
from gpuplatform.workloads.template import MAX_GPUS, MAX_PULL_SECRETS, SpecName

MAX_WARM_TARGET = 1000
MAX_WARM_IMAGES = 10


def _or_empty(check: Callable[[str], str]) -> AfterValidator:
    """Return a validator that also accepts the empty string, which means "none"."""
    return AfterValidator(lambda text: check(text) if text else text)


class GpuSpecFields(OperationBody):
    """The fields of a GPU spec, named like their columns. `None` means that a field is omitted."""

    description: Annotated[str, AfterValidator(page_text), Field(max_length=200)] | None = Field(
        default=None,
        description="Human-readable description of the GPU spec.",
        examples=["Two H100"],
    )
    cpu: Annotated[str, _or_empty(quantity.cpu)] | None = Field(
        default=None,
        description="CPU of one unit, used as request and limit: a Kubernetes quantity such as 4"
        " or 500m. An empty string means no CPU request.",
        examples=["8"],
    )
    memory: Annotated[str, _or_empty(quantity.memory)] | None = Field(
        default=None,
        description="Memory of one unit, used as request and limit: a Kubernetes quantity. An"
        " empty string means no memory request.",
        examples=["64Gi"],
    )
    gpu: int | None = Field(
        default=None,
        ge=0,
        le=MAX_GPUS,
        description="Number of GPUs of one unit.",
        examples=[2],
    )
    resource_name: ResourceName | None = Field(default=None, alias="resourceName")
    resources: Resources | None = None
    product: Annotated[str, _or_empty(names.label_value)] | None = Field(
        default=None,
        description="Required value of the node label nvidia.com/gpu.product. An empty string"
        " allows any GPU product.",
        examples=["NVIDIA-H100-80GB-HBM3"],
    )
    placement: Placement | None = None
    warm_images: (
        Annotated[
            tuple[Annotated[str, AfterValidator(image.image_reference)], ...],
            Field(strict=False, max_length=MAX_WARM_IMAGES),
        ]
        | None
    ) = Field(
        default=None,
        alias="warmImages",
        description="Images that the platform keeps on each node with units of the GPU spec.",
        examples=[["vllm/vllm-openai:v0.11.0"]],
    )
    image_pull_secrets: (
        Annotated[
            tuple[PullSecret, ...],
            Field(strict=False, max_length=MAX_PULL_SECRETS),
        ]
        | None
    ) = Field(
        default=None,
        alias="imagePullSecrets",
        description="Secrets in the namespace runtime-stock with which nodes pull the warm"
        " images.",
        examples=[[{"name": "registry"}]],
    )
    warm_target: int | None = Field(
        default=None,
        alias="warmTarget",
        ge=0,
        le=MAX_WARM_TARGET,
        description="Number of ready stock units that the platform maintains. 0 disables the"
        " automatic top-up.",
        examples=[0],
    )
    is_top_up_paused: bool | None = Field(
        default=None,
        alias="topUpPaused",
        description="Whether the automatic top-up to the warm target is paused.",
        examples=[False],
    )
    restocks_on_delete: bool | None = Field(
        default=None,
        alias="restockOnDelete",
        description="Whether the platform creates a new stock unit for each deleted unit.",
        examples=[False],
    )
    may_preempt: bool | None = Field(
        default=None,
        alias="mayPreempt",
        description="Whether a unit can preempt other pods to get the GPUs of its stock unit.",
        examples=[True],
    )
    is_enabled: bool | None = Field(
        default=None,
        alias="enabled",
        description="Whether stock of the GPU spec can be seeded and claimed. Disabling a GPU spec"
        " removes its unclaimed stock; active units keep running.",
        examples=[True],
    )

    @field_validator("warm_images")
    @classmethod
    def warm_images_differ(cls, images: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Reject two references of the same image."""
        reject_duplicates([image.canonical(one) for one in images or ()])
        return images

    @field_validator("image_pull_secrets")
    @classmethod
    def pull_secrets_differ(
        cls, secrets: tuple[PullSecret, ...] | None
    ) -> tuple[PullSecret, ...] | None:
        """Reject duplicate names."""
        reject_duplicates([secret.name for secret in secrets or ()], "name")
        return secrets

    @model_validator(mode="after")
    def resources_are_counted_once(self) -> Self:
        """Reject further resources that contain the resource of the GPUs."""
        if self.resource_name is not None and self.resources is not None:
            counted_once(self.resource_name, self.resources)
        return self

    @override
    def payload(self) -> dict[str, Any]:
        """Return the specified fields by API name, in canonical form, without the operationID."""
        given = self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        if self.placement is not None:
            given["placement"] = self.placement.normalised()
        return {name: value for name, value in given.items() if name in COLUMNS}

    def columns(self) -> dict[str, Any]:
        """Return the values of the specified fields by column name."""
        return {COLUMNS[name]: value for name, value in GpuSpecFields.payload(self).items()}


COLUMNS: Final = MappingProxyType(
    {
        declared.alias or name: name
        for name, declared in GpuSpecFields.model_fields.items()
        if name != "operation_id"
    }
)
"""The column of each field that can be changed, by the field's API name."""

_DEFAULTS: Final = MappingProxyType(
    {"mayPreempt": True, "enabled": True, "resourceName": GPU_RESOURCE}
)
"""The defaults by API name. All other defaults are empty, 0 or false."""


class GpuSpecCreate(GpuSpecFields):
    """The request body that creates a GPU spec in the catalogue.

    The number of GPUs is required, so that a GPU spec without GPUs is not created by mistake.
    """

    gpu: int = Field(  # No default: 0 must be specified.
        ge=0,
        le=MAX_GPUS,
        description="Number of GPUs of one unit; 0 for units without GPUs.",
        examples=[2],
    )

    name: SpecName = Field(
        description="Name of the GPU spec; it is also a label value. At most 63 characters:"
        " letters, digits, '-', '_' and '.', starting with a lowercase letter or a digit.",
        examples=["h100-2g"],
    )

    @model_validator(mode="after")
    def default_resource_is_counted_once(self) -> Self:
        """Reject further resources that contain the default resource of the GPUs."""
        counted_once(self.resource_name or GPU_RESOURCE, self.resources or {})
        return self

    @override
    def payload(self) -> dict[str, Any]:
        """Return the payload of the request hash: without the operationID, name and defaults."""
        return {
            name: value
            for name, value in super().payload().items()
            if (value != _DEFAULTS[name] if name in _DEFAULTS else bool(value))
        }


class GpuSpecPatch(GpuSpecFields, ChangeBody):
    """The request body that changes a GPU spec.

    Omitted fields, existing stock and existing units are unchanged.
    """
