"""Which nodes are short of GPUs, as the last comparison saw them."""

from collections.abc import Sequence

from units.core.observed import Shortage
from units.models import ShortNode
from units.selectors import short_nodes


def short_nodes_seen(found: Sequence[Shortage]) -> set[str]:
    """Replace what is known, in the transaction of the caller; return the nodes that changed."""
    news = set(found) ^ set(short_nodes())
    changed = {one.node for one in news}
    ShortNode.objects.filter(name__in=changed).delete()
    ShortNode.objects.bulk_create(
        (
            ShortNode(name=one.node, gpus_offered=one.offered, gpus_held=one.held)
            for one in found
            if one in news
        ),
        ignore_conflicts=True,  # Of one that compares beside this one; the next one sees it.
    )
    return changed
