"""The scheduler. It orders pods by priority and nodes by utilization; it does not preempt pods."""

from collections import Counter

from typing_extensions import override

from gpuplatform.dev.simulator.apiserver.controllers.events import record_event
from gpuplatform.dev.simulator.apiserver.controllers.loop import Controller
from gpuplatform.dev.simulator.apiserver.controllers.placement import Node, explain, requests_of
from gpuplatform.dev.simulator.apiserver.objects import Manifest, clone, condition, now
from gpuplatform.dev.simulator.apiserver.resources import GroupPlural
from gpuplatform.dev.simulator.apiserver.store import Change, Entry, Key
from gpuplatform.dev.simulator.apiserver.subresources import bind
from gpuplatform.dev.simulator.apiserver.targets import Options, Target
from gpuplatform.dev.simulator.apiserver.writes import Writer

_PODS: GroupPlural = ("", "pods")
_NODES: GroupPlural = ("", "nodes")
_NAME = "default-scheduler"
_ALL: Key = ("", "", "", "all waiting pods")


class Scheduler(Controller):
    """The scheduler, which binds pods to nodes. Commits update its cache of nodes and pods."""

    def __init__(self, writer: Writer) -> None:
        super().__init__(writer)
        self._nodes: dict[str, Node] = {}
        self._placed: dict[Key, tuple[str, Counter[str]]] = {}
        self._waiting: set[Key] = set()
        self._unschedulable: set[Key] = set()
        """Keys of unschedulable pods, which are retried when resources may have been released."""

    @override
    def observe(self, change: Change) -> None:
        kind, is_deleted = change.entry.key[:2], change.type == "DELETED"
        if kind == _PODS:
            self._observe_pod(change.entry, is_deleted=is_deleted)
        elif kind == _NODES:
            self._observe_node(change.entry.object, is_deleted=is_deleted)

    def _observe_pod(self, entry: Entry, *, is_deleted: bool) -> None:
        pod, key = entry.object, entry.key
        name = pod["spec"].get("nodeName")
        ended = is_deleted or pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
        if ended:
            self._forget(key)
            self._unassign(key)
        elif name:
            self._forget(key)
            if key not in self._placed:
                self._placed[key] = (name, requests_of(pod))
                if name in self._nodes:
                    self._nodes[name].taken.update(self._placed[key][1])
        elif (
            pod["spec"].get("schedulerName") == _NAME
            and "deletionTimestamp" not in pod["metadata"]
        ):
            if key not in self._waiting:
                self._waiting.add(key)
                self.add(_ALL)
        else:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        self._waiting.discard(key)
        self._unschedulable.discard(key)

    def _unassign(self, key: Key) -> None:
        name, requests = self._placed.pop(key, ("", Counter()))
        if name in self._nodes:
            self._nodes[name].taken.subtract(requests)
            self._retry()

    def _observe_node(self, obj: Manifest, *, is_deleted: bool) -> None:
        name = obj["metadata"]["name"]
        old, new = self._nodes.get(name), Node.of(obj)
        if is_deleted:
            self._nodes.pop(name, None)
        elif old is None:
            for node, requests in self._placed.values():
                if node == name:
                    new.taken.update(requests)
            self._nodes[name] = new
        else:
            new.taken = old.taken
            self._nodes[name] = new
        if is_deleted or old != new:
            self._retry()

    def _retry(self) -> None:
        self._unschedulable.clear()
        self.add(_ALL)

    @override
    def sync(self, key: Key) -> None:
        found = (self.store.get(k) for k in self._waiting - self._unschedulable)
        waiting = [
            entry for entry in found if entry and not entry.object["spec"].get("schedulingGates")
        ]
        for entry in sorted(waiting, key=_order):
            self._place(entry)

    def _place(self, entry: Entry) -> None:
        requests = requests_of(entry.object)
        reasons: Counter[str] = Counter()
        fitting: list[Node] = []
        for node in self._nodes.values():
            obstacles = node.obstacles(entry.object, requests)
            reasons.update(obstacles)
            if not obstacles:
                fitting.append(node)
        if not fitting:
            self._unschedulable.add(entry.key)
            self._mark_unschedulable(entry, explain(len(self._nodes), reasons))
            return
        best = min(fitting, key=lambda node: (node.load(requests), node.name))
        target = Target(self.writer.registry.require("pods"), *entry.key[2:])
        bound = bind(self.writer, target, best.name)
        message = f"Successfully assigned {entry.key[2]}/{entry.key[3]} to {best.name}"
        record_event(self.writer, bound, "Normal", ("Scheduled", message), _NAME)

    def _mark_unschedulable(self, entry: Entry, message: str) -> None:
        old = condition(entry.object, "PodScheduled")
        if old.get("message") == message:
            return
        status = clone(entry.object["status"])
        others = [c for c in status.get("conditions", ()) if c["type"] != "PodScheduled"]
        unschedulable = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": old.get("lastTransitionTime", now()),
        }
        status["conditions"] = [*others, unschedulable]
        options = Options(manager="kube-scheduler", subresource="status")
        self.writer.change(entry, lambda pod: pod.update(status=status), options)
        record_event(self.writer, entry, "Warning", ("FailedScheduling", message), _NAME)


def _order(entry: Entry) -> tuple[int, str, str]:
    """Return the sort key of the queue: highest priority first, then oldest first."""
    metadata = entry.object["metadata"]
    return (
        -entry.object["spec"].get("priority", 0),
        metadata["creationTimestamp"],
        metadata["name"],
    )
