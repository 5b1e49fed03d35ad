"""The nodes and the pods that hold their GPUs, kept up to date from watch events. Pure.

The controller updates the tracker from several threads. Objects are reduced to the fields of a
`NodeRecord` when they arrive, so that events that change none of them, such as the heartbeats of
nodes and the status of pods without GPUs, change nothing.
"""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpuplatform.kube.fields import text
from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.holders import NodeRecord, PlacedHolder, holder_of, node_records
from gpuplatform.workloads.nodes import NodeState


@dataclass(frozen=True, slots=True)
class Changes:
    """The records of nodes that have changed, and the state of the cluster that they describe."""

    records: Mapping[str, NodeRecord | None]
    """The record of each changed node by name, or `None` if nothing of the node is left."""
    version: int
    """The newest resource version that the tracker has processed."""
    is_complete: bool
    """Whether `records` contains all nodes of the cluster."""


class NodeTracker:
    """The state of all nodes, by the objects of the last lists and events."""

    def __init__(self, sources: Iterable[str]) -> None:
        """Create an empty tracker. `sources` are the names of the watches of pods."""
        self._lock = threading.Lock()
        self._nodes: dict[str, NodeState] | None = None
        self._pods: dict[str, dict[str, PlacedHolder] | None] = dict.fromkeys(sources)
        self._version = 0
        self._dirty: set[str] = set()
        self._is_all_dirty = True

    def nodes_listed(self, nodes: Iterable[Manifest], version: int) -> None:
        """Replace the nodes with a complete list."""
        states = [NodeState.of(node) for node in nodes]
        with self._lock:
            self._nodes = {state.name: state for state in states}
            self._seen(version)
            self._is_all_dirty = True

    def node_event(self, type_: str, node: Manifest, version: int) -> None:
        """Apply an event of a node. Events before the first list are ignored."""
        state = NodeState.of(node)
        with self._lock:
            self._seen(version)
            if self._nodes is None:
                return
            before = self._nodes.get(state.name)
            if type_ == "DELETED":
                self._nodes.pop(state.name, None)
                self._dirty.add(state.name)
            elif before != state:
                self._nodes[state.name] = state
                self._dirty.add(state.name)

    def pods_listed(self, source: str, pods: Iterable[Manifest], version: int) -> None:
        """Replace the pods of a watch with a complete list."""
        found = {
            text(pod, "metadata", "uid"): placed for pod in pods if (placed := holder_of(pod))
        }
        with self._lock:
            self._pods[source] = found
            self._seen(version)
            self._is_all_dirty = True

    def pod_event(self, source: str, type_: str, pod: Manifest, version: int) -> None:
        """Apply an event of a pod. Events before the first list are ignored."""
        uid, placed = text(pod, "metadata", "uid"), holder_of(pod)
        with self._lock:
            self._seen(version)
            known = self._pods[source]
            if known is None:
                return
            before = known.pop(uid, None)
            after = None if type_ == "DELETED" else placed
            if after is not None:
                known[uid] = after
            if before != after:
                self._dirty |= {one.node for one in (before, after) if one}

    def recheck(self) -> None:
        """Return all nodes with the next changes, so that rows of other writers are corrected."""
        with self._lock:
            self._is_all_dirty = True

    def counts(self) -> tuple[int, int]:
        """Return the number of nodes, and the number of ready nodes."""
        with self._lock:
            nodes = [*(self._nodes or {}).values()]
        return len(nodes), sum(node.is_ready for node in nodes)

    def changes(self) -> Changes | None:
        """Return the changes since the last call, or `None` if there are none.

        Nothing is returned before the first list of each watch: what is unknown is not empty.
        """
        with self._lock:
            pods = [known for known in self._pods.values() if known is not None]
            is_synced = self._nodes is not None and len(pods) == len(self._pods)
            if not is_synced or not (self._dirty or self._is_all_dirty):
                return None
            is_complete, dirty = self._is_all_dirty, self._dirty
            self._is_all_dirty, self._dirty = False, set()
            nodes = [*(self._nodes or {}).values()]
            placed = [one for known in pods for one in known.values()]
            if not is_complete:
                nodes = [node for node in nodes if node.name in dirty]
                placed = [one for one in placed if one.node in dirty]
            version = self._version
        records: dict[str, NodeRecord | None] = dict.fromkeys(dirty)
        records.update(node_records(nodes, placed))
        return Changes(records, version, is_complete)

    def _seen(self, version: int) -> None:
        self._version = max(self._version, version)
