"""The node controller: sets the taints of node conditions, as the node lifecycle controller does.

Missing heartbeats are not detected. Only a kubelet changes the conditions of its node.
"""

from typing_extensions import override

from gpuplatform.dev.simulator.apiserver.controllers.loop import MANAGER, Controller
from gpuplatform.dev.simulator.apiserver.objects import Manifest, condition
from gpuplatform.dev.simulator.apiserver.store import Change, Key
from gpuplatform.dev.simulator.apiserver.targets import Options

_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_CORDONED = "node.kubernetes.io/unschedulable"
_PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_MANAGED = {_NOT_READY, _UNREACHABLE, _CORDONED, *_PRESSURES.values()}


class Nodes(Controller):
    """The controller that maintains the NoSchedule taints that correspond to node conditions."""

    @override
    def observe(self, change: Change) -> None:
        if change.entry.key[:2] == ("", "nodes"):
            self.add(change.entry.key)

    @override
    def sync(self, key: Key) -> None:
        entry = self.store.get(key)
        if entry is None:
            return
        desired = _desired(entry.object)
        taints = entry.object["spec"].get("taints", [])
        managed = {
            t["key"] for t in taints if t["key"] in _MANAGED and t["effect"] == "NoSchedule"
        }
        if managed == desired:
            return
        kept = [t for t in taints if t["key"] not in _MANAGED or t["effect"] != "NoSchedule"]
        added = [{"key": name, "effect": "NoSchedule"} for name in sorted(desired)]
        self.writer.change(
            entry, lambda obj: obj["spec"].update(taints=kept + added), Options(manager=MANAGER)
        )


def _desired(node: Manifest) -> set[str]:
    ready = condition(node, "Ready").get("status")
    desired = {_CORDONED} if node["spec"].get("unschedulable") else set()
    if ready == "Unknown":
        desired.add(_UNREACHABLE)
    elif ready != "True":
        desired.add(_NOT_READY)
    desired |= {
        taint
        for name, taint in _PRESSURES.items()
        if condition(node, name).get("status") == "True"
    }
    return desired
