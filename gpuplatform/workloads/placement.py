"""Where pods may run: the labels that a node has and the taints that a pod puts up with.

Declared once for the catalogue and for GPU units. Pure.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from gpuplatform.formats import names
from gpuplatform.formats.model import SpecModel

MAX_LABELS: Final = 50
MAX_TOLERATIONS: Final = 50
MAX_TOLERATION_SECONDS: Final = 31_536_000


def _label_value(value: str) -> str:
    return names.label_value(value) if value else value


LabelKey = Annotated[str, AfterValidator(names.label_key)]
LabelValue = Annotated[str, AfterValidator(_label_value)]


class Toleration(SpecModel):
    """A taint that the pod puts up with, as Kubernetes has it."""

    key: LabelKey | None = Field(
        default=None,
        description="The taint's key. Without one `operator` is Exists, and every taint matches.",
        examples=["nvidia.com/gpu"],
    )
    operator: Literal["Equal", "Exists"] = Field(
        default="Equal",
        description="Whether the value has to be equal, or the key alone decides.",
        examples=["Exists"],
    )
    value: LabelValue = Field(
        default="", description="The taint's value; none with Exists.", examples=[""]
    )
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None,
        description="The taint's effect; every effect when it is left out.",
        examples=["NoSchedule"],
    )
    toleration_seconds: int | None = Field(
        default=None,
        alias="tolerationSeconds",
        ge=0,
        le=MAX_TOLERATION_SECONDS,
        json_schema_extra={"format": "int64"},
        description="How long a NoExecute taint is put up with; for ever when it is left out.",
    )

    @model_validator(mode="after")
    def fits_together(self) -> "Toleration":
        """Refuse what the API server refuses in the pod of a Deployment."""
        if self.key is None and self.operator != "Exists":
            msg = "Without a key, operator must be Exists."
            raise ValueError(msg)
        if self.operator == "Exists" and self.value:
            msg = "With operator Exists there is no value."
            raise ValueError(msg)
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            msg = "tolerationSeconds goes with the effect NoExecute only."
            raise ValueError(msg)
        return self


class Placement(SpecModel):
    """On which nodes the pod may run."""

    node_selector: Mapping[LabelKey, LabelValue] = Field(
        default={},
        alias="nodeSelector",
        max_length=MAX_LABELS,
        description="Labels that the node has.",
        examples=[{"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}],
    )
    tolerations: Annotated[tuple[Toleration, ...], Field(strict=False)] = Field(
        default=(),
        max_length=MAX_TOLERATIONS,
        description="Taints that the pod puts up with.",
        examples=[[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]],
    )

    @field_validator("node_selector")
    @classmethod
    def plain(cls, selector: Mapping[str, str]) -> Mapping[str, str]:
        """One order for two spellings of one selector."""
        return dict(sorted(selector.items()))
