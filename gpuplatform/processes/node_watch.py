"""Records the nodes and the pods that hold their GPUs, from the watches of the controller.

A row is written only if a value changes, at most once for all events since the last tick of the
controller. Pods of other programs have a separate watch, and cause no write unless they hold GPUs.
"""

from collections.abc import Callable
from typing import Final

from django.db import Error as DatabaseFault

from gpuplatform.kube.client import Listing
from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.ownership import POOL_LABEL, UNIT_LABEL
from gpuplatform.queueing import Queue, Urgency, enqueue
from gpuplatform.reconciliation.mirror import version_number
from inventory.core.node_tracker import NodeTracker
from units.nodes import nodes_recorded
from units.services.names import UnitTask

OTHERS: Final = f"!{POOL_LABEL},!{UNIT_LABEL}"
"""The label selector of the pods that are not part of the platform."""

OnList = Callable[[Listing], None]
OnEvent = Callable[[str, Manifest], None]


class NodeWatch:
    """The callbacks of the watches of nodes and pods, and the duties that write the rows."""

    def __init__(self) -> None:
        """Create a watch that has received no list."""
        self._tracker = NodeTracker((POOL_LABEL, UNIT_LABEL, OTHERS))

    def on_nodes(self, listing: Listing) -> None:
        """Process the list of the nodes. A comparison then records their images."""
        self._tracker.nodes_listed(listing.items, version_number(listing.resource_version))
        enqueue(UnitTask.COMPARE_NODES, queue=Queue.PERIODIC)

    def on_node(self, type_: str, node: Manifest) -> None:
        """Process an event of a node."""
        self._tracker.node_event(type_, node, _version(node))

    def pods_of(self, source: str) -> tuple[OnList, OnEvent]:
        """Return the callbacks of the watch of the pods with the label selector `source`."""

        def on_list(listing: Listing) -> None:
            version = version_number(listing.resource_version)
            self._tracker.pods_listed(source, listing.items, version)

        def on_event(type_: str, pod: Manifest) -> None:
            self._tracker.pod_event(source, type_, pod, _version(pod))

        return on_list, on_event

    def record(self) -> None:
        """Write the nodes that have changed, and enqueue the units on them."""
        changes = self._tracker.changes()
        if changes is None:
            return
        try:
            due = nodes_recorded(
                changes.records, version=changes.version, is_complete=changes.is_complete
            )
        except DatabaseFault:
            self._tracker.recheck()
            raise
        for row in due:
            enqueue(UnitTask.RECONCILE_UNIT, row, queue=Queue.RECONCILE, urgency=Urgency.NEXT)

    def recheck(self) -> None:
        """Compare all rows with the watched state at the next tick.

        This corrects rows that another writer has changed.
        """
        self._tracker.recheck()

    def counts(self) -> tuple[int, int]:
        """Return the number of nodes, and the number of ready nodes."""
        return self._tracker.counts()


def _version(item: Manifest) -> int:
    return version_number(str(item["metadata"].get("resourceVersion", "")))
