"""The parsed metadata and status of a custom resource, for planners. Pure; accepts any input."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuplatform.kube.fields import condition, field, items, number
from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.plan import StatusSummary


@dataclass(frozen=True, slots=True)
class ResourceView:
    """The metadata and the status of a custom resource."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    generation: int
    annotations: Mapping[str, Any]
    finalizers: Sequence[str]
    is_deleting: bool
    status: Mapping[str, Any]
    condition_types: frozenset[str]
    previous: StatusSummary | None
    """The status of the current generation, or `None` if the status describes an older one."""

    @classmethod
    def of(cls, resource: Manifest) -> "ResourceView":
        """Return the view of a resource."""
        metadata = resource["metadata"]
        annotations, status = metadata.get("annotations"), resource.get("status")
        conditions = items(resource, "status", "conditions")
        return ResourceView(
            api_version=resource["apiVersion"],
            kind=resource["kind"],
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            generation=number(metadata, "generation"),
            annotations=annotations if isinstance(annotations, dict) else {},
            finalizers=tuple(map(str, items(metadata, "finalizers"))),
            is_deleting=bool(metadata.get("deletionTimestamp")),
            status=status if isinstance(status, dict) else {},
            condition_types=frozenset(str(field(one, "type")) for one in conditions),
            previous=_previous(resource),
        )

    @property
    def phase(self) -> str:
        """The phase in the status, even of an older generation, or an empty string."""
        return str(self.status.get("phase") or "")

    def columns(self) -> dict[str, Any]:
        """Return the fields by name, for a subclass with additional fields."""
        return {name: getattr(self, name) for name in ResourceView.__slots__}


def _previous(resource: Manifest) -> StatusSummary | None:
    ready = condition(resource, "Ready")
    generation = number(resource, "metadata", "generation")
    if number(ready, "observedGeneration") != generation:
        return None
    return StatusSummary(
        phase=str(field(resource, "status", "phase") or ""),
        reason=str(ready.get("reason") or ""),
        message=str(ready.get("message") or ""),
        cause=str(field(resource, "status", "cause") or ""),
    )
