"""Writes the nodes of units, the images of nodes, and the states of warm images.

Called by periodic tasks. Rows that are unchanged are not written.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from inventory.models import GpuSpec
from units.core.pullers import ImageOnNode, Puller
from units.models import GpuUnit, NodeImages, WarmImage

_BATCH = 500


class Move(NamedTuple):
    """The row of a unit whose node was recorded, with its previous and its new node."""

    row_id: int
    before: str
    """The previous node, or an empty string if it was not known."""
    after: str


def unit_nodes_update(nodes: Mapping[str, str]) -> list[Move]:
    """Record the node of each unit by its UID. Other units keep their last node.

    Rows that another transaction has locked are skipped; the next comparison writes them.
    """
    live = GpuUnit.objects.filter(deleted_at__isnull=True, uid__in=nodes)
    moves = [
        Move(row_id, known, nodes[uid])
        for row_id, uid, known in live.values_list("id", "uid", "node").iterator()
        if nodes[uid] != known
    ]
    moved: dict[str, list[int]] = defaultdict(list)
    for move in moves:
        moved[move.after].append(move.row_id)
    for node, ids in sorted(moved.items()):
        with transaction.atomic():
            rows = GpuUnit.objects.filter(pk__in=ids).order_by("id")
            free = rows.select_for_update(skip_locked=True, of=("self",))
            GpuUnit.objects.filter(pk__in=list(free.values_list("pk", flat=True))).update(
                node=node
            )
    return moves


def node_images_update(images: Mapping[str, Sequence[str]]) -> None:
    """Replace the recorded images of all nodes. `images` has an entry for each node with units."""
    known = dict(NodeImages.objects.values_list("name", "images"))
    changed = [
        NodeImages(name=name, images=list(found))
        for name, found in sorted(images.items())
        if known.get(name) != list(found)
    ]
    NodeImages.objects.filter(name__in=known.keys() - images.keys()).delete()
    NodeImages.objects.bulk_create(
        changed,
        batch_size=_BATCH,
        update_conflicts=True,
        unique_fields=["name"],
        update_fields=["images"],
    )


def pullers_wanted() -> list[Puller]:
    """Return the puller of each enabled GPU spec with warm images on each node with its units.

    A node that the last comparison did not find has none.
    """
    specs = GpuSpec.objects.filter(is_enabled=True).exclude(warm_images=[]).order_by("name")
    by_name = {spec.name: spec for spec in specs}
    held = Q(deleted_at__isnull=True, consumed_by="", is_suspended=False)
    places = (
        GpuUnit.objects.filter(held, spec_name__in=by_name, node__in=NodeImages.objects.all())
        .order_by("spec_name", "node")
        .values_list("spec_name", "node")
        .distinct()
    )
    return [_puller(by_name[name], node) for name, node in places]


def warm_images_update(found: Iterable[ImageOnNode]) -> None:
    """Replace the recorded states of all warm images."""
    seen = {(one.spec_name, one.node, one.image): one for one in found}
    gone: list[int] = []
    for row in WarmImage.objects.all():
        key = (row.spec_name, row.node, row.image)
        one = seen.get(key)
        if one is None:
            gone.append(row.pk)
        elif (row.state, row.cause, row.message) == (one.state, one.cause, one.message):
            del seen[key]
    WarmImage.objects.filter(pk__in=gone).delete()
    WarmImage.objects.bulk_create(
        [_row(seen[key]) for key in sorted(seen)],
        batch_size=_BATCH,
        update_conflicts=True,
        unique_fields=["spec_name", "node", "image"],
        update_fields=["state", "cause", "message", "since"],
    )


def _puller(spec: GpuSpec, node: str) -> Puller:
    return Puller(
        spec_name=spec.name,
        node=node,
        images=tuple(spec.warm_images),
        pull_secrets=tuple(secret["name"] for secret in spec.image_pull_secrets),
        tolerations=tuple(spec.placement.get("tolerations", ())),
    )


def _row(one: ImageOnNode) -> WarmImage:
    return WarmImage(
        spec_name=one.spec_name,
        node=one.node,
        image=one.image,
        state=one.state,
        cause=one.cause,
        message=one.message,
        since=Now(),
    )
