"""The nodes of units, their changes and their images. Pure."""

from collections.abc import Sequence

from gpuplatform.formats.image import MAX_LENGTH, canonical
from gpuplatform.kube.fields import field, items
from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.holders import NodeRecord
from units.core.names import UNIT_UID_LABEL
from units.core.shortage import shortages


def nodes_of_units(pods: Sequence[Manifest]) -> dict[str, str]:
    """Return the node of each unit by its UID. Pods that are being deleted are ignored."""
    return {
        str(uid): str(node)
        for pod in pods
        if not field(pod, "metadata", "deletionTimestamp")
        and (uid := field(pod, "metadata", "labels", UNIT_UID_LABEL))
        and (node := field(pod, "spec", "nodeName"))
    }


def changes_units(before: NodeRecord | None, after: NodeRecord | None) -> bool:
    """Return whether a change of a node can change the status of the units on it.

    Pods that come and go change it only if the node offers fewer GPUs than its pods hold.
    """
    states = [one.state if one else None for one in (before, after)]
    missing = [shortages(one) if one else [] for one in (before, after)]
    return states[0] != states[1] or missing[0] != missing[1]


def is_restricted(record: NodeRecord | None) -> bool:
    """Return whether the status of a unit that is placed on a node can depend on the node."""
    return record is not None and (not record.state.accepts_pods or bool(shortages(record)))


def images_by_node(nodes: Sequence[Manifest]) -> dict[str, list[str]]:
    """Return the complete names of the images that each node reports, sorted."""
    return {str(field(node, "metadata", "name")): _images_of(node) for node in nodes}


def _images_of(node: Manifest) -> list[str]:
    names = (
        name
        for image in items(node, "status", "images")
        for name in items(image, "names")
        if isinstance(name, str) and len(name) <= MAX_LENGTH and "\x00" not in name
    )
    return sorted({canonical(name) for name in names})
