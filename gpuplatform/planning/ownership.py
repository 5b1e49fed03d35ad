"""Ownership of objects in the cluster. Pure.

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
UNIT_UID_LABEL: Final = f"{GROUP}/unit-uid"
"""Label of pods. It distinguishes them from the pods of an earlier unit with the same name."""

_OF_THE_COLLECTOR: Final = frozenset({"foregroundDeletion", "orphan"})
_MOST_NAMED: Final = 5
_GENERATED: Final = "batch.kubernetes.io/controller-uid"
"""The label by which a Job selects its pods."""


def controller_reference(owner: ResourceView) -> Manifest:
    """Return the owner reference that makes `owner` the controller of an object.

    The reference contains the UID, so that the garbage collector deletes an object that is created
    late for a deleted owner.
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
    """Return whether the owner with that UID is the controller of `dependent`."""
    return any(
        field(one, "controller") and field(one, "uid") == owner_uid
        for one in items(dependent, "metadata", "ownerReferences")
    )


def is_orphan(dependent: Manifest, label: str, owner_name: str) -> bool:
    """Return whether `dependent` was created for the owner of that name and has no controller.

    The owner adopts such an object, as Kubernetes controllers do: the object has all labels of the
    platform, but no owner reference. An object that is being deleted is not adopted.
    """
    labels = field(dependent, "metadata", "labels")
    return (
        not any(
            field(one, "controller") for one in items(dependent, "metadata", "ownerReferences")
        )
        and not field(dependent, "metadata", "deletionTimestamp")
        and field(labels, MANAGED_BY_LABEL) == MANAGER
        and field(labels, label) == owner_name
        and _is_selecting(dependent, {label: owner_name})
    )


def adoption(kind: ResourceKind, orphan: Manifest, owner: ResourceView) -> Patch:
    """Return the patch that makes `owner` the controller of the object that was read."""
    references = [*items(orphan, "metadata", "ownerReferences"), controller_reference(owner)]
    return patch_of(kind, orphan, {"metadata": {"ownerReferences": references}})


def patch_of(kind: ResourceKind, live: Manifest, changes: Manifest) -> Patch:
    """Return the patch of the object that was read, with its resource version as precondition."""
    metadata = live["metadata"]
    version = {key: metadata[key] for key in ("uid", "resourceVersion")}
    patch = {**changes, "metadata": {**changes.get("metadata", {}), **version}}
    return Patch(kind, metadata["namespace"], metadata["name"], patch)


def deletion_of(kind: ResourceKind, live: Manifest, *, is_unchanged: bool = False) -> Delete:
    """Return the deletion of the object that was read, with its UID as precondition.

    If `is_unchanged` is true, the resource version is also a precondition.
    """
    metadata = live["metadata"]
    version = metadata["resourceVersion"] if is_unchanged else ""
    return Delete(kind, metadata["namespace"], metadata["name"], metadata["uid"], version)


def deletion_obstacle(resource: ResourceView) -> str:
    """Return the message about finalizers that block the deletion, or an empty string.

    The finalizers of the garbage collector do not count. The platform sets no finalizer.
    """
    foreign = sorted(set(resource.finalizers) - _OF_THE_COLLECTOR)
    if not foreign:
        return ""
    names = ", ".join(f"'{one}'" for one in foreign[:_MOST_NAMED])
    return (
        f"Finalizers of other programs block the deletion: {names}. If such a program no longer"
        " exists, remove its finalizer with kubectl."
    )


def _is_selecting(dependent: Manifest, labels: Manifest) -> bool:
    """Return whether a Deployment or a Service selects its pods by these labels.

    The API server generates the selector of a Job.
    """
    selector = field(dependent, "spec", "selector")
    wanted: Any = field(selector, "matchLabels") or selector
    return wanted == labels or (isinstance(wanted, dict) and _GENERATED in wanted)
