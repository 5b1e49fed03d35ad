"""The extended resources of pods: the GPUs, and further resources. Pure.

`gpu` is the number of units of the resource `resourceName`. A node can have several such
resources, for example whole GPUs and MIG slices, and their numbers are never added.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, Field, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from gpuplatform.errors import FieldError
from gpuplatform.formats import names, quantity
from gpuplatform.formats.model import json_path
from gpuplatform.formats.quantity import Quantity
from gpuplatform.formats.validations import cel, keys_match, validated
from gpuplatform.kube.fields import field, items
from gpuplatform.kube.kinds import Manifest

GPU_RESOURCE: Final = "nvidia.com/gpu"
"""The default of `resourceName`."""
MAX_RESOURCES: Final = 16

_COUNTED_TWICE: Final = "Is the resource that gpu counts. Use gpu instead."


def _sorted(resources: Mapping[str, str]) -> Mapping[str, str]:
    """Sort the resources, so that equal ones have the same JSON."""
    return dict(sorted(resources.items()))


ResourceName = Annotated[
    str,
    AfterValidator(names.extended_resource),
    Field(
        json_schema_extra=validated(
            cel(
                f"!self.contains('{names.KUBERNETES_DOMAIN}')"
                f" && !self.startsWith('{names.QUOTA_PREFIX}')",
                "Must be an extended resource.",
            )
        )
        | {
            "pattern": f"^{names.EXTENDED_RESOURCE}$",
            "maxLength": names.EXTENDED_RESOURCE_MAX,
        },
        description="Extended resource that `gpu` counts.",
        examples=["nvidia.com/mig-1g.10gb"],
    ),
]
Resources = Annotated[
    Mapping[
        Annotated[str, AfterValidator(names.extended_resource)],
        Annotated[
            str,
            AfterValidator(quantity.whole),
            Field(
                json_schema_extra=validated(
                    cel(
                        "isQuantity(self) && quantity(self).isInteger()"
                        " && quantity(self).compareTo(quantity('1')) >= 0"
                        " && quantity(self).compareTo(quantity('1P')) <= 0",
                        "Must be an integer from 1 to 1P.",
                    )
                )
                | {"maxLength": quantity.MAX_LENGTH}
            ),
        ],
    ],
    Field(
        max_length=MAX_RESOURCES,
        json_schema_extra=validated(
            keys_match(
                names.EXTENDED_RESOURCE,
                names.EXTENDED_RESOURCE_MAX,
                "Must have extended resources as keys.",
                f"!key.contains('{names.KUBERNETES_DOMAIN}')",
                f"!key.startsWith('{names.QUOTA_PREFIX}')",
            )
        ),
        description="Further extended resources of each pod, with integer quantities.",
        examples=[{"rdma/hca": "1"}],
    ),
    AfterValidator(_sorted),
]

ONE_COUNT: Final = cel(
    "!has(self.resources) || !(self.resourceName in self.resources)",
    _COUNTED_TWICE,
    field_path=".resources",
)
"""The rule of the CRD that corresponds to `counted_once`."""


def resources_error(resource_name: str, resources: Mapping[str, str]) -> FieldError | None:
    """Return the error of `resources` that contain the resource that `gpu` counts, if any."""
    if resource_name not in resources:
        return None
    return FieldError(json_path(("resources", resource_name)), _COUNTED_TWICE)


def counted_once(resource_name: str, resources: Mapping[str, str]) -> None:
    """Raise the validation error of a model whose `resources` contain the resource of `gpu`."""
    if resource_name in resources:
        error = PydanticCustomError("resources", "{message}", {"message": _COUNTED_TWICE})
        place = InitErrorDetails(type=error, loc=("resources", resource_name), input=None)
        raise ValidationError.from_exception_data("Resources", [place])


def amounts(gpu: int, resource_name: str, resources: Mapping[str, str]) -> dict[str, str]:
    """Return the quantities of the extended resources of a pod, as the API server stores them."""
    found = {**resources, **({resource_name: str(gpu)} if gpu else {})}
    return {name: Quantity.parse(amount).decimal() for name, amount in found.items()}


def resource_in(spec: object) -> str:
    """Return the resource that `gpu` counts in a spec, which any client may have written."""
    name = field(spec, "resourceName")
    return name if isinstance(name, str) and name else GPU_RESOURCE


def held_by(pod: Manifest) -> Counter[str]:
    """Return the number of units of each extended resource that a pod holds or requests.

    As for the scheduler, the number is the sum of all containers, or the number of an init
    container if it is larger. An init container that restarts counts as a container.
    """
    held, largest = Counter[str](), Counter[str]()
    for container in items(pod, "spec", "containers"):
        held.update(_limits(container))
    for container in items(pod, "spec", "initContainers"):
        if field(container, "restartPolicy") == "Always":
            held.update(_limits(container))
        else:
            largest |= _limits(container)
    return +(held | largest)


def offered_by(node: Manifest, what: str = "allocatable") -> dict[str, int]:
    """Return the number of units of each extended resource of a node."""
    return _extended(field(node, "status", what))


def _limits(container: object) -> Counter[str]:
    return Counter(_extended(field(container, "resources", "limits")))


def _extended(found: object) -> dict[str, int]:
    if not isinstance(found, dict):
        return {}
    return {
        str(name): int(Quantity.parsed_or_zero(amount))
        for name, amount in found.items()
        if names.is_extended_resource(str(name))
    }
