"""Placement of pods: node selector and tolerations, for the catalogue and GPU units. Pure."""

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
    """A taint that the pod tolerates, as in Kubernetes."""

    key: LabelKey | None = Field(
        default=None,
        description="Key of the taint. Without one `operator` must be Exists, and every taint"
        " matches.",
        examples=["nvidia.com/gpu"],
    )
    operator: Literal["Equal", "Exists"] = Field(
        default="Equal",
        description="Whether the value must be equal, or any value matches.",
        examples=["Exists"],
    )
    value: LabelValue = Field(
        default="", description="Value of the taint; empty with Exists.", examples=[""]
    )
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None,
        description="Effect of the taint; by default every effect.",
        examples=["NoSchedule"],
    )
    toleration_seconds: int | None = Field(
        default=None,
        alias="tolerationSeconds",
        ge=0,
        le=MAX_TOLERATION_SECONDS,
        json_schema_extra={"format": "int64"},
        description="Seconds for which a NoExecute taint is tolerated; by default forever.",
    )

    @model_validator(mode="after")
    def fits_together(self) -> "Toleration":
        """Refuse tolerations that the API server refuses in a pod."""
        if self.key is None and self.operator != "Exists":
            msg = "Without a key, operator must be Exists."
            raise ValueError(msg)
        if self.operator == "Exists" and self.value:
            msg = "With operator Exists, value must be empty."
            raise ValueError(msg)
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            msg = "tolerationSeconds requires the effect NoExecute."
            raise ValueError(msg)
        return self


class Placement(SpecModel):
    """The nodes on which the pod may run."""

    node_selector: Mapping[LabelKey, LabelValue] = Field(
        default={},
        alias="nodeSelector",
        max_length=MAX_LABELS,
        description="Labels that the node must have.",
        examples=[{"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}],
    )
    tolerations: Annotated[tuple[Toleration, ...], Field(strict=False)] = Field(
        default=(),
        max_length=MAX_TOLERATIONS,
        description="Taints that the pod tolerates.",
        examples=[[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]],
    )

    @field_validator("node_selector")
    @classmethod
    def plain(cls, selector: Mapping[str, str]) -> Mapping[str, str]:
        """Sort the labels, so that equal selectors are spelled alike."""
        return dict(sorted(selector.items()))
