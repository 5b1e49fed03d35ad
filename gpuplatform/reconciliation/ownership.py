"""Who an object in the cluster belongs to. Pure.

Source: Kubernetes documentation, "Owners and Dependents" and "Recommended Labels".
"""

from typing import Any

from gpuplatform.kube.kinds import GROUP, Manifest

MANAGER = "gpu-platform"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
POOL_LABEL = f"{GROUP}/pool"
UNIT_LABEL = f"{GROUP}/unit"


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
