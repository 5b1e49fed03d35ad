"""The pod garbage collector: deletes pods on nodes that no longer exist."""

import time

from typing_extensions import override

from gpuplatform.dev.simulator.apiserver.controllers.loop import MANAGER, Controller
from gpuplatform.dev.simulator.apiserver.deletes import DeleteOptions, delete
from gpuplatform.dev.simulator.apiserver.resources import GroupPlural
from gpuplatform.dev.simulator.apiserver.store import Change, Entry, Key
from gpuplatform.dev.simulator.apiserver.targets import Options, Target
from gpuplatform.dev.simulator.apiserver.writes import Writer

_PODS: GroupPlural = ("", "pods")
_NODES: GroupPlural = ("", "nodes")
_QUARANTINE_SECONDS = 5.0
"""Time in seconds between the deletion of a node and its pods; 40 to 60 s in Kubernetes."""


class PodGarbageCollector(Controller):
    """The controller that fails and deletes the pods of deleted nodes, without a grace period.

    The keys are nodes.
    """

    def __init__(self, writer: Writer) -> None:
        super().__init__(writer)
        self._missing_since: dict[Key, float] = {}

    @override
    def observe(self, change: Change) -> None:
        key = change.entry.key
        if key[:2] == _NODES and change.type == "DELETED":
            self.add(key)
        elif key[:2] == _PODS and change.type != "DELETED":
            node = (*_NODES, "", change.entry.object["spec"].get("nodeName") or "")
            if node[3] and node not in self._missing_since and self.store.get(node) is None:
                self.add(node)

    @override
    def sync(self, key: Key) -> None:
        if self.store.get(key) is not None:
            self._missing_since.pop(key, None)
            return
        since = self._missing_since.setdefault(key, time.monotonic())
        left = since + _QUARANTINE_SECONDS - time.monotonic()
        if left > 0:
            self.add_after(key, left)
            return
        self._missing_since.pop(key)
        for entry in list(self.store.find(_PODS)):
            if entry.object["spec"].get("nodeName") == key[3]:
                self._delete(entry)

    def _delete(self, entry: Entry) -> None:
        if entry.object["status"].get("phase") not in {"Succeeded", "Failed"}:
            options = Options(manager=MANAGER, subresource="status")
            self.writer.change(entry, lambda pod: pod["status"].update(phase="Failed"), options)
        target = Target(self.writer.registry.require("pods"), *entry.key[2:])
        delete(self.store, target, DeleteOptions(grace_seconds=0))
