"""Who an object in the cluster belongs to. Pure.

Source: Kubernetes documentation, "Owners and Dependents" and "Recommended Labels".
"""

from typing import Any, Final

from gpuplatform.kube.fields import field, items
from gpuplatform.kube.kinds import GROUP, Manifest, ResourceKind
from gpuplatform.planning.plan import Patch

MANAGER = "gpu-platform"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
POOL_LABEL = f"{GROUP}/pool"
POOL_UID_LABEL = f"{GROUP}/pool-uid"
UNIT_LABEL = f"{GROUP}/unit"

_OF_THE_COLLECTOR: Final = frozenset({"foregroundDeletion", "orphan"})
_MOST_NAMED: Final = 5


def controller_reference(owner: Manifest) -> Manifest:
    """Return the owner reference that makes `owner` the one controller of an object.

    It carries the UID, so that a late write for a dead owner is collected as garbage.
    """
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_controlled_by(dependent: Manifest, owner_uid: str) -> bool:
    """Say whether the controller of `dependent` is the owner with that UID."""
    references: Any = dependent.get("metadata", {}).get("ownerReferences") or []
    return any(
        reference.get("controller") and reference.get("uid") == owner_uid
        for reference in references
    )


def is_orphan(dependent: Manifest, label: str, owner_name: str) -> bool:
    """Say whether `dependent` was made for the owner of that name and nobody controls it.

    As Kubernetes' own controllers do, such a one is adopted: it bears every mark of ours, only its
    owner reference was taken away. What is being deleted is left to its end.
    """
    labels = field(dependent, "metadata", "labels")
    return (
        not any(
            field(one, "controller") for one in items(dependent, "metadata", "ownerReferences")
        )
        and not field(dependent, "metadata", "deletionTimestamp")
        and field(labels, MANAGED_BY_LABEL) == MANAGER
        and field(labels, label) == owner_name
        and _selected(dependent) == {label: owner_name}
    )


def adoption(kind: ResourceKind, orphan: Manifest, owner: Manifest) -> Patch:
    """Return the action that makes `owner` the controller of exactly the object that was read."""
    metadata = orphan["metadata"]
    references = [*items(metadata, "ownerReferences"), controller_reference(owner)]
    version = {key: metadata[key] for key in ("uid", "resourceVersion")}
    patch = {"metadata": {**version, "ownerReferences": references}}
    return Patch(kind, metadata["namespace"], metadata["name"], patch)


def held_up_by(resource: Manifest) -> str:
    """Return why a resource that is being deleted stays; empty where only its garbage is awaited.

    The platform sets no finalizer of its own.
    """
    found = [str(one) for one in items(resource, "metadata", "finalizers")]
    foreign = sorted(set(found) - _OF_THE_COLLECTOR)
    if not foreign:
        return ""
    names = ", ".join(f"'{one}'" for one in foreign[:_MOST_NAMED])
    return (
        f"The deletion waits for a finalizer that is not the platform's: {names}. The program that"
        " set it takes it off; if that program is gone, remove it with kubectl."
    )


def _selected(dependent: Manifest) -> Any:
    """Return the labels that a Deployment, or a Service, selects its pods by."""
    selector = field(dependent, "spec", "selector")
    return field(selector, "matchLabels") or selector
