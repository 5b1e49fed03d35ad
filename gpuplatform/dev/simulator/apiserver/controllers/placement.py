"""Functions that decide whether a pod fits a node, with the messages of kube-scheduler. Pure."""

from collections import Counter
from dataclasses import dataclass, field

from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.selectors import expression_holds
from gpuplatform.formats.quantity import NANO, Quantity

_UNMATCHED = "node(s) didn't match Pod's node affinity/selector"
_CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_BLOCKING = {"NoSchedule", "NoExecute"}


def requests_of(pod: Manifest) -> Counter[str]:
    """Return the effective resource requests of a pod, in billionths of the unit, by resource.

    This is the sum of all containers, or the request of an init container if it is larger.
    """
    spec = pod["spec"]
    total: Counter[str] = Counter({"pods": NANO})
    for container in spec.get("containers", ()):
        total.update(_amounts(container.get("resources", {}).get("requests", {})))
    for container in spec.get("initContainers", ()):
        for name, amount in _amounts(container.get("resources", {}).get("requests", {})).items():
            total[name] = max(total[name], amount)
    return total


def priority_of(pod: Manifest) -> int:
    """Return the priority of a pod, which is 0 by default."""
    return int(pod["spec"].get("priority") or 0)


def _amounts(quantities: dict[str, str]) -> dict[str, int]:
    return {name: Quantity.parse(text).nanos for name, text in quantities.items()}


@dataclass(slots=True)
class Node:
    """A node with the sum of the requests of its pods."""

    name: str
    labels: dict[str, str]
    taints: list[Manifest]
    allocatable: dict[str, int]
    taken: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, node: Manifest) -> "Node":
        """Create the state from a node object. The caller adds the requests of the pods."""
        taints = list(node["spec"].get("taints", ()))
        if node["spec"].get("unschedulable"):
            taints.append(_CORDONED)
        status = node.get("status", {})
        metadata = node["metadata"]
        amounts = _amounts(status.get("allocatable", {}))
        return cls(metadata["name"], metadata.get("labels", {}), taints, amounts)

    def obstacles(self, pod: Manifest, requests: Counter[str]) -> list[str]:
        """Return the reasons why `pod` does not fit this node.

        Returns an empty list if the pod fits.
        """
        if _CORDONED in self.taints and not _tolerates(pod["spec"], _CORDONED):
            return ["node(s) were unschedulable"]
        taint = next((t for t in self.taints if not _tolerates(pod["spec"], t)), None)
        if taint:
            value = taint.get("value", "")
            return [f"node(s) had untolerated taint(s) {{{taint['key']}: {value}}}"]
        if not _matches(pod["spec"], self):
            return [_UNMATCHED]
        return [
            "Too many pods" if name == "pods" else f"Insufficient {name}"
            for name, amount in sorted(requests.items())
            if amount and self.taken[name] + amount > self.allocatable.get(name, 0)
        ]

    def preference(self, pod: Manifest) -> int:
        """Return the sum of the weights of the preferred node affinities that the node meets."""
        affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
        terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ())
        return sum(term["weight"] for term in terms if _term_holds(term["preference"], self))

    def load(self, requests: Counter[str]) -> float:
        """Return the mean utilization of the requested resources after adding `requests`."""
        shares = [
            (self.taken[name] + amount) / self.allocatable[name]
            for name, amount in requests.items()
            if self.allocatable.get(name)
        ]
        return sum(shares) / len(shares) if shares else 0.0


def _tolerates(spec: Manifest, taint: Manifest) -> bool:
    if taint.get("effect") not in _BLOCKING:
        return True
    return any(_covers(toleration, taint) for toleration in spec.get("tolerations", ()))


def _covers(toleration: Manifest, taint: Manifest) -> bool:
    if toleration.get("effect") not in {None, taint["effect"]}:
        return False
    if toleration.get("key") not in {None, taint["key"]}:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")


def _matches(spec: Manifest, node: Node) -> bool:
    if not spec.get("nodeSelector", {}).items() <= node.labels.items():
        return False
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(_term_holds(term, node) for term in required.get("nodeSelectorTerms", ()))


def _term_holds(term: Manifest, node: Node) -> bool:
    labels, fields = term.get("matchExpressions", ()), term.get("matchFields", ())
    if not labels and not fields:
        return False
    by_field = {"metadata.name": node.name}
    return all(expression_holds(node.labels, e) for e in labels) and all(
        expression_holds(by_field, e) for e in fields
    )


def explain(nodes: int, reasons: Counter[str]) -> str:
    """Return the message of a FailedScheduling Event, such as `0/3 nodes are available: 3 ...`."""
    if not nodes:
        return "no nodes available to schedule pods"
    parts = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return f"0/{nodes} nodes are available: {', '.join(parts)}."
