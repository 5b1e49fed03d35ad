"""The scheduling state of nodes, and whether a node would accept a pod. Pure.

Source: Kubernetes documentation, "Taints and Tolerations", "Assigning Pods to Nodes" and "Node
Status". Requests of CPU and memory are not compared: the pod of a unit requests what the pod of
its stock unit releases.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from typing_extensions import override

from gpuplatform.formats.names import is_extended_resource
from gpuplatform.formats.quantity import Quantity
from gpuplatform.kube.fields import condition, items, number, text
from gpuplatform.kube.fields import field as read
from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.placement import PRODUCT_LABEL
from gpuplatform.workloads.resources import GPU_RESOURCE, resource_in

CORDONED_TAINT: Final = "node.kubernetes.io/unschedulable"
"""The taint of a cordoned node, in addition to its field `unschedulable`."""
NOT_READY_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")

PRESSURES: Final = ("DiskPressure", "MemoryPressure", "PIDPressure", "NetworkUnavailable")
"""The conditions of a node that accepts no pods while their status is True."""

_BLOCKING: Final = frozenset({"NoSchedule", "NoExecute"})
_PLAIN_RESOURCES: Final = frozenset({"cpu", "memory"})


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""

    @override
    def __str__(self) -> str:
        """Return the taint as `kubectl` shows it."""
        value = f"={self.value}" if self.value else ""
        return f"{self.key}{value}:{self.effect}"


@dataclass(frozen=True, slots=True)
class NodeState:
    """The fields of a node that decide which pods it accepts."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    """The quantities of CPU, memory and extended resources, including unhealthy devices."""
    allocatable: Mapping[str, str] = field(default_factory=dict)
    """The quantities of CPU, memory and extended resources that pods can request."""
    is_present: bool = True
    """Whether the node exists. The pods of a deleted node can exist for some time."""
    is_ready: bool = True
    is_schedulable: bool = True
    """Whether the node is not cordoned."""
    taints: tuple[Taint, ...] = ()
    pressures: tuple[str, ...] = ()
    """The conditions of `PRESSURES` whose status is True."""

    @classmethod
    def of(cls, node: Manifest) -> "NodeState":
        """Return the state of a node object, which any client may have written."""
        return cls(
            name=text(node, "metadata", "name"),
            labels=_strings(read(node, "metadata", "labels")),
            capacity=_resources(read(node, "status", "capacity")),
            allocatable=_resources(read(node, "status", "allocatable")),
            is_ready=condition(node, "Ready").get("status") == "True",
            is_schedulable=read(node, "spec", "unschedulable") is not True,
            taints=tuple(
                Taint(text(one, "key"), text(one, "effect"), text(one, "value"))
                for one in items(node, "spec", "taints")
            ),
            pressures=tuple(
                type_ for type_ in PRESSURES if condition(node, type_).get("status") == "True"
            ),
        )

    @property
    def accepts_pods(self) -> bool:
        """Whether the node accepts pods that tolerate its taints."""
        return self.is_present and self.is_ready and self.is_schedulable and not self.pressures

    @property
    def product(self) -> str:
        """The GPU product of the node's label, or an empty string."""
        return self.labels.get(PRODUCT_LABEL, "")

    @property
    def gpus(self) -> dict[str, int]:
        """The allocatable number of each extended resource."""
        return _numbers(self.allocatable)

    @property
    def total_gpus(self) -> dict[str, int]:
        """The number of each extended resource, including devices that are not allocatable."""
        total = _numbers(self.capacity)
        return {**total, **{name: max(total.get(name, 0), n) for name, n in self.gpus.items()}}


@dataclass(frozen=True, slots=True)
class PodRequirements:
    """What a pod requires of its node."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()
    resources: Mapping[str, int] = field(default_factory=dict)
    """The requested number of each extended resource."""

    @classmethod
    def of_spec(cls, spec: object) -> "PodRequirements":
        """Return the requirements of the pod of a unit with this spec, in the format of a GPUUnit.

        Fields of the wrong type count as absent, because any client may have written them.
        """
        gpu, tolerations = number(spec, "gpu"), items(spec, "placement", "tolerations")
        further = _numbers(_strings(read(spec, "resources")))
        return cls(
            node_selector=_strings(read(spec, "placement", "nodeSelector")),
            tolerations=[one for one in tolerations if isinstance(one, dict)],
            resources={**further, **({resource_in(spec): gpu} if gpu > 0 else {})},
        )


@dataclass(frozen=True, slots=True)
class NodeRejection:
    """The reason for which a node does not accept a pod."""

    cause: StartupCause
    text: str
    """A clause about the node."""


def node_rejection(
    node: NodeState, pod: PodRequirements, room: Mapping[str, int]
) -> NodeRejection | None:
    """Return the reason for which `node` does not accept `pod` now, or `None` if it accepts it.

    Args:
        node: The node.
        pod: The requirements of the pod.
        room: The number of each extended resource that the pod can use on the node: what is free,
            and what the pod that it replaces holds. It is negative if the pods of the node hold
            more than the node offers.
    """
    return (
        _state_rejection(node, pod)
        or _label_rejection(node, pod)
        or _room_rejection(node, pod, room)
    )


def _state_rejection(node: NodeState, pod: PodRequirements) -> NodeRejection | None:
    name = f"node '{node.name}'"
    cordon = Taint(CORDONED_TAINT, "NoSchedule")
    pressures = ", ".join(node.pressures)
    states = (
        (not node.is_present, StartupCause.NODE_MISSING, "no longer exists"),
        (not node.is_ready, StartupCause.NODE_NOT_READY, "is not ready"),
        (
            not node.is_schedulable and not _tolerates(pod, cordon),
            StartupCause.NODE_CORDONED,
            "is cordoned",
        ),
        (bool(pressures), StartupCause.NODE_UNDER_PRESSURE, f"reports {pressures}"),
    )
    for is_so, cause, what in states:
        if is_so:
            return NodeRejection(cause, f"{name} {what}")
    taint = next((one for one in node.taints if not _tolerates(pod, one)), None)
    if taint is None:
        return None
    clause = f"{name} has the taint {taint}, which the unit does not tolerate"
    return NodeRejection(_cause_of(taint), clause)


def _label_rejection(node: NodeState, pod: PodRequirements) -> NodeRejection | None:
    for key, value in sorted(pod.node_selector.items()):
        found = node.labels.get(key)
        if found != value:
            has = "does not have it" if found is None else f"has the value '{found}'"
            clause = (
                f"the placement requires the label {key}={value}, and node '{node.name}' {has}"
            )
            return NodeRejection(StartupCause.NODE_LABELS_DIFFER, clause)
    return None


def _room_rejection(
    node: NodeState, pod: PodRequirements, room: Mapping[str, int]
) -> NodeRejection | None:
    for resource, wanted in sorted(pod.resources.items()):
        if room.get(resource, 0) < wanted:
            what = "GPUs" if resource == GPU_RESOURCE else resource
            offered = node.gpus.get(resource, 0)
            clause = f"node '{node.name}' offers {offered} {what}, which its other pods hold"
            return NodeRejection(StartupCause.GPUS_MISSING, clause)
    return None


def _cause_of(taint: Taint) -> StartupCause:
    """Return the cause of a taint, which the node controller sets for a state of the node."""
    if taint.key in NOT_READY_TAINTS:
        return StartupCause.NODE_NOT_READY
    if taint.key == CORDONED_TAINT:
        return StartupCause.NODE_CORDONED
    return StartupCause.NODE_TAINTED


def _tolerates(pod: PodRequirements, taint: Taint) -> bool:
    if taint.effect not in _BLOCKING:
        return True
    return any(_covers(toleration, taint) for toleration in pod.tolerations)


def _covers(toleration: Mapping[str, Any], taint: Taint) -> bool:
    """Return whether a toleration matches a taint. An empty key matches with `Exists` only."""
    if toleration.get("effect") not in {None, "", taint.effect}:
        return False
    key, is_any_value = toleration.get("key") or "", toleration.get("operator") == "Exists"
    if key not in {"", taint.key}:
        return False
    if is_any_value:
        return True
    return bool(key) and (toleration.get("value") or "") == taint.value


def _strings(found: object) -> dict[str, str]:
    if not isinstance(found, dict):
        return {}
    return {str(key): value for key, value in found.items() if isinstance(value, str)}


def _resources(found: object) -> dict[str, str]:
    if not isinstance(found, dict):
        return {}
    return {
        str(name): str(amount)
        for name, amount in sorted(found.items(), key=lambda pair: str(pair[0]))
        if name in _PLAIN_RESOURCES or is_extended_resource(str(name))
    }


def _numbers(quantities: Mapping[str, str]) -> dict[str, int]:
    return {
        name: max(int(Quantity.parsed_or_zero(amount)), 0)
        for name, amount in quantities.items()
        if name not in _PLAIN_RESOURCES
    }
