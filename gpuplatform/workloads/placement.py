"""The placement of pods, for the catalogue and GPU units: node selector and tolerations. Pure."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from gpuplatform.formats import names
from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.validations import keys_match, validated

PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
MAX_LABELS: Final = 50
MAX_TOLERATIONS: Final = 50
MAX_TOLERATION_SECONDS: Final = 31_536_000


def _label_value(value: str) -> str:
    return names.label_value(value) if value else value


LabelKey = Annotated[str, AfterValidator(names.label_key)]
LabelValue = Annotated[
    str,
    AfterValidator(_label_value),
    Field(
        json_schema_extra={
            "pattern": f"^({names.LABEL_VALUE})?$",
            "maxLength": names.LABEL_MAX,
        }
    ),
]


class Toleration(SpecModel):
    """A toleration of the pod for node taints."""

    key: LabelKey | None = Field(
        default=None,
        json_schema_extra={
            "pattern": f"^{names.LABEL_KEY}$",
            "maxLength": names.LABEL_KEY_MAX,
        },
        description="Taint key that the toleration applies to. If it is absent, the operator must"
        " be Exists, and the toleration matches all taint keys.",
        examples=["nvidia.com/gpu"],
    )
    operator: Literal["Equal", "Exists"] = Field(
        default="Equal",
        description="Relation of the toleration to the taint value: Equal, or Exists to match all"
        " values.",
        examples=["Exists"],
    )
    value: LabelValue = Field(
        default="",
        description="Taint value that the toleration matches. It must be empty if the operator is"
        " Exists.",
        examples=[""],
    )
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None,
        description="Taint effect to match. By default all effects match.",
        examples=["NoSchedule"],
    )
    toleration_seconds: int | None = Field(
        default=None,
        alias="tolerationSeconds",
        ge=0,
        le=MAX_TOLERATION_SECONDS,
        json_schema_extra={"format": "int64"},
        description="Duration in seconds for which a taint with the effect NoExecute is"
        " tolerated. By default the taint is tolerated forever.",
    )

    @model_validator(mode="after")
    def fits_together(self) -> "Toleration":
        """Reject tolerations that the API server rejects."""
        if self.key is None and self.operator != "Exists":
            msg = "The operator must be Exists if the key is absent."
            raise ValueError(msg)
        if self.operator == "Exists" and self.value:
            msg = "The value must be empty if the operator is Exists."
            raise ValueError(msg)
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            msg = "tolerationSeconds requires the effect NoExecute."
            raise ValueError(msg)
        return self


class Placement(SpecModel):
    """The constraints on the nodes of the pod."""

    node_selector: Mapping[LabelKey, LabelValue] = Field(
        default={},
        alias="nodeSelector",
        max_length=MAX_LABELS,
        json_schema_extra=validated(
            keys_match(
                names.LABEL_KEY, names.LABEL_KEY_MAX, "Must have keys of node labels as keys."
            )
        ),
        description="Labels that a node must have so that the pod can be scheduled on it.",
        examples=[{PRODUCT_LABEL: "NVIDIA-H100-80GB-HBM3"}],
    )
    tolerations: Annotated[tuple[Toleration, ...], Field(strict=False)] = Field(
        default=(),
        max_length=MAX_TOLERATIONS,
        description="Tolerations of the pod for node taints.",
        examples=[[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]],
    )

    @field_validator("node_selector")
    @classmethod
    def plain(cls, selector: Mapping[str, str]) -> Mapping[str, str]:
        """Sort the labels, so that equal selectors have the same JSON."""
        return dict(sorted(selector.items()))
