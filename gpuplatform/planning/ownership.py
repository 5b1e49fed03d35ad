"""The owner of an object in the cluster. Pure.

Source: Kubernetes documentation, "Owners and Dependents" and "Recommended Labels".
"""

from typing import Any, Final

from gpuplatform.kube.fields import field, items
from gpuplatform.kube.kinds import GROUP, Manifest, ResourceKind
from gpuplatform.planning.plan import Delete, Patch
from gpuplatform.planning.view import ResourceView

MANAGER = "gpu-platform"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
POOL_LABEL = f"{GROUP}/pool"
POOL_UID_LABEL = f"{GROUP}/pool-uid"
UNIT_LABEL = f"{GROUP}/unit"

_OF_THE_COLLECTOR: Final = frozenset({"foregroundDeletion", "orphan"})
_MOST_NAMED: Final = 5


def controller_reference(owner: ResourceView) -> Manifest:
    """Return the owner reference that makes `owner` the controller of an object.

    It has the UID, so that a late write for a deleted owner is collected as garbage.
    """
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_controlled_by(dependent: Manifest, owner_uid: str) -> bool:
    """Return whether the controller of `dependent` is the owner with that UID."""
    return any(
        field(one, "controller") and field(one, "uid") == owner_uid
        for one in items(dependent, "metadata", "ownerReferences")
    )


def is_orphan(dependent: Manifest, label: str, owner_name: str) -> bool:
    """Return whether `dependent` was created for the owner of that name and has no controller.

    Such an object is adopted, as Kubernetes' own controllers do: it has every label of the
    platform and only lost its owner reference. An object that is being deleted is not adopted.
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


def adoption(kind: ResourceKind, orphan: Manifest, owner: ResourceView) -> Patch:
    """Return the action that makes `owner` the controller of exactly the object that was read."""
    references = [*items(orphan, "metadata", "ownerReferences"), controller_reference(owner)]
    return patch_of(kind, orphan, {"metadata": {"ownerReferences": references}})


def patch_of(kind: ResourceKind, live: Manifest, changes: Manifest) -> Patch:
    """Return the action that changes exactly the version of `live` that was read."""
    metadata = live["metadata"]
    version = {key: metadata[key] for key in ("uid", "resourceVersion")}
    patch = {**changes, "metadata": {**changes.get("metadata", {}), **version}}
    return Patch(kind, metadata["namespace"], metadata["name"], patch)


def deletion_of(kind: ResourceKind, live: Manifest) -> Delete:
    """Return the action that deletes exactly the object that was read."""
    metadata = live["metadata"]
    return Delete(kind, metadata["namespace"], metadata["name"], metadata["uid"])


def deletion_obstacle(resource: ResourceView) -> str:
    """Return why a deletion does not proceed; empty while only garbage collection is awaited.

    The platform itself sets no finalizer.
    """
    foreign = sorted(set(resource.finalizers) - _OF_THE_COLLECTOR)
    if not foreign:
        return ""
    names = ", ".join(f"'{one}'" for one in foreign[:_MOST_NAMED])
    return (
        f"The deletion waits for a finalizer of another program: {names}. That program removes it;"
        " if the program no longer exists, remove the finalizer with kubectl."
    )


def _selected(dependent: Manifest) -> Any:
    """Return the labels that a Deployment, or a Service, selects its pods by."""
    selector = field(dependent, "spec", "selector")
    return field(selector, "matchLabels") or selector
