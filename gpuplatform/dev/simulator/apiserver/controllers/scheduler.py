"""The scheduler. It orders pods by priority and age, and nodes by preferred affinity, then use.

A pod that fits no node preempts pods with a lower priority; see `preemption.py`.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from typing_extensions import override

from gpuplatform.dev.simulator.apiserver.controllers.events import record_event
from gpuplatform.dev.simulator.apiserver.controllers.loop import Controller
from gpuplatform.dev.simulator.apiserver.controllers.placement import (
    Node,
    explain,
    priority_of,
    requests_of,
)
from gpuplatform.dev.simulator.apiserver.controllers.preemption import (
    DISRUPTION,
    PREEMPTED,
    Resident,
    best_node,
    may_preempt,
    victims_on,
)
from gpuplatform.dev.simulator.apiserver.deletes import DeleteOptions, delete
from gpuplatform.dev.simulator.apiserver.objects import Manifest, condition, now
from gpuplatform.dev.simulator.apiserver.resources import GroupPlural
from gpuplatform.dev.simulator.apiserver.store import Change, Entry, Key
from gpuplatform.dev.simulator.apiserver.subresources import bind
from gpuplatform.dev.simulator.apiserver.targets import Options, Target
from gpuplatform.dev.simulator.apiserver.writes import Writer
from gpuplatform.dev.simulator.isolation import isolated

log = logging.getLogger(__name__)

_PODS: GroupPlural = ("", "pods")
_NODES: GroupPlural = ("", "nodes")
_NAME = "default-scheduler"
_ALL: Key = ("", "", "", "all waiting pods")
_STATUS = Options(manager="kube-scheduler", subresource="status")


@dataclass(frozen=True, slots=True)
class _Nomination:
    """A node on which a waiting pod has preempted others."""

    node: str
    priority: int
    requests: Counter[str]


class Scheduler(Controller):
    """The scheduler, which binds pods to nodes. Commits update its cache of nodes and pods."""

    def __init__(self, writer: Writer) -> None:
        super().__init__(writer)
        self._nodes: dict[str, Node] = {}
        self._placed: dict[Key, str] = {}
        self._residents: defaultdict[str, dict[Key, Resident]] = defaultdict(dict)
        """The bound pods of each node, including nodes that do not exist."""
        self._waiting: dict[Key, None] = {}
        """Keys of the pods without a node, in the order of their arrival."""
        self._unschedulable: set[Key] = set()
        """Keys of unschedulable pods, which are retried when resources may have been released."""
        self._nominations: dict[Key, _Nomination] = {}

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
            self._assign(key, pod, name)
        elif (
            pod["spec"].get("schedulerName") == _NAME
            and "deletionTimestamp" not in pod["metadata"]
        ):
            self._nominate(key, pod)
            if key not in self._waiting:
                self._waiting[key] = None
                self.add(_ALL)
        else:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        self._waiting.pop(key, None)
        self._unschedulable.discard(key)
        if self._nominations.pop(key, None):
            self._retry()

    def _nominate(self, key: Key, pod: Manifest) -> None:
        name, known = _nominated_node(pod), self._nominations.get(key)
        if name and (known is None or known.node != name):
            self._nominations[key] = _Nomination(name, priority_of(pod), requests_of(pod))
        elif known and not name:
            del self._nominations[key]
            self._retry()

    def _assign(self, key: Key, pod: Manifest, name: str) -> None:
        known = self._residents[name].get(key)
        requests = known.requests if known else requests_of(pod)
        self._residents[name][key] = Resident.of(key, pod, requests)
        self._placed[key] = name
        if known is None and name in self._nodes:
            self._nodes[name].taken.update(requests)

    def _unassign(self, key: Key) -> None:
        name = self._placed.pop(key, None)
        if name is None:
            return
        resident = self._residents[name].pop(key)
        if name in self._nodes:
            self._nodes[name].taken.subtract(resident.requests)
            self._retry()

    def _observe_node(self, obj: Manifest, *, is_deleted: bool) -> None:
        name = obj["metadata"]["name"]
        old, new = self._nodes.get(name), Node.of(obj)
        if is_deleted:
            self._nodes.pop(name, None)
        elif old is None:
            for resident in self._residents[name].values():
                new.taken.update(resident.requests)
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
        found = (self.store.get(k) for k in self._waiting if k not in self._unschedulable)
        waiting = [
            entry for entry in found if entry and not entry.object["spec"].get("schedulingGates")
        ]
        for one in sorted(waiting, key=_order):
            entry = self.store.get(one.key)  # An earlier pod can have changed its nomination.
            if entry:
                with isolated(log, entry.key):  # The other pods are placed nevertheless.
                    self._place(entry)

    def _place(self, entry: Entry) -> None:
        pod, requests = entry.object, requests_of(entry.object)
        nodes = self._nodes_for(entry)
        obstacles = {name: node.obstacles(pod, requests) for name, node in nodes.items()}
        fitting = [node for name, node in nodes.items() if not obstacles[name]]
        if not fitting:
            reasons = Counter(chain.from_iterable(obstacles.values()))
            self._reject(entry, nodes, explain(len(nodes), reasons))
            return
        nominated = _nominated_node(pod)
        best = min(
            fitting,
            key=lambda node: (
                *(node.name != nominated, -node.preference(pod)),
                *(node.load(requests), node.name),
            ),
        )
        target = Target(self.writer.registry.require("pods"), *entry.key[2:])
        bound = bind(self.writer, target, best.name)
        message = f"Successfully assigned {entry.key[2]}/{entry.key[3]} to {best.name}"
        record_event(self.writer, bound, "Normal", ("Scheduled", message), _NAME)

    def _nodes_for(self, entry: Entry) -> dict[str, Node]:
        """Return the nodes with the requests of the nominated pods that precede a pod."""
        nodes, priority = dict(self._nodes), priority_of(entry.object)
        for key, nomination in self._nominations.items():
            node = nodes.get(nomination.node)
            if node and key != entry.key and nomination.priority >= priority:
                nodes[node.name] = replace(node, taken=node.taken + nomination.requests)
        return nodes

    def _reject(self, entry: Entry, nodes: dict[str, Node], message: str) -> None:
        """Mark a pod as unschedulable, and preempt pods so that it fits later."""
        pod, requests = entry.object, requests_of(entry.object)
        self._unschedulable.add(entry.key)
        nominated = _nominated_node(pod)
        residents = self._residents.get(nominated, {}).values()
        if not may_preempt(pod, requests, nodes.get(nominated), residents):
            self._mark_unschedulable(entry, message, nominated)
            return
        found = {
            name: victims_on(node, self._residents.get(name, {}).values(), pod, requests)
            for name, node in nodes.items()
        }
        possible = {name: victims for name, victims in found.items() if victims}
        name = best_node(possible) if possible else ""
        self._mark_unschedulable(entry, message, name)
        if name:
            self._withdraw_nominations(name, priority_of(pod))
            self._preempt(entry, name, possible[name])

    def _withdraw_nominations(self, node: str, priority: int) -> None:
        """Withdraw the nominations of pods with a lower priority. They are scheduled again."""
        lower = [
            key
            for key, nomination in self._nominations.items()
            if nomination.node == node and nomination.priority < priority
        ]
        for key in lower:
            entry = self.store.get(key)
            if entry:
                self.writer.change(entry, lambda pod: _set_nomination(pod["status"], ""), _STATUS)

    def _preempt(self, entry: Entry, node: str, victims: Sequence[Resident]) -> None:
        message = f"Preempted by pod {entry.object['metadata']['uid']} on node {node}"
        target: Manifest = {
            "type": DISRUPTION,
            "status": "True",
            "reason": PREEMPTED,
            "message": f"{_NAME}: preempting to accommodate a higher priority pod",
        }
        for resident in victims:
            victim = self.store.get(resident.key)
            if victim is None or "deletionTimestamp" in victim.object["metadata"]:
                continue
            marked = self.writer.change(victim, lambda pod: _set_condition(pod, target), _STATUS)
            resource = self.writer.registry.require("pods")
            delete(self.store, Target(resource, *resident.key[2:]), DeleteOptions())
            record_event(self.writer, marked, "Normal", ("Preempted", message), _NAME)

    def _mark_unschedulable(self, entry: Entry, message: str, nominated: str) -> None:
        old, pod = condition(entry.object, "PodScheduled"), entry.object
        if (old.get("message"), _nominated_node(pod)) == (message, nominated):
            return
        unschedulable = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
        }

        def edit(obj: Manifest) -> None:
            _set_condition(obj, unschedulable)
            _set_nomination(obj["status"], nominated)

        self.writer.change(entry, edit, _STATUS)
        record_event(self.writer, entry, "Warning", ("FailedScheduling", message), _NAME)


def _nominated_node(pod: Manifest) -> str:
    return str(pod.get("status", {}).get("nominatedNodeName") or "")


def _set_nomination(status: Manifest, node: str) -> None:
    status.pop("nominatedNodeName", None)
    if node:
        status["nominatedNodeName"] = node


def _set_condition(pod: Manifest, new: Manifest) -> None:
    """Set a condition of a pod. Its time changes only if its status changes."""
    old, status = condition(pod, new["type"]), pod["status"]
    same = old.get("status") == new["status"]
    since = old.get("lastTransitionTime", now()) if same else now()
    others = [one for one in status.get("conditions", ()) if one.get("type") != new["type"]]
    status["conditions"] = [*others, {**new, "lastTransitionTime": since}]


def _order(entry: Entry) -> tuple[int, str]:
    """Return the sort key of the queue: highest priority first, then oldest first."""
    return -priority_of(entry.object), str(entry.object["metadata"]["creationTimestamp"])
