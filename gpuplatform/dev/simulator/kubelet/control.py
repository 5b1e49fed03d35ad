"""The control object: a ConfigMap through which tests control the simulated nodes.

The key `control` of the ConfigMap `kube-system/simulated-kubelet` is JSON; all keys are optional:

    {"startDelaySeconds": 5,      time in seconds from binding to running
     "holdTerminating": true,     terminating pods are not deleted
     "nodes": {"gpu-node-1": {
         "failed": true,          the kubelet stops: no lease, no node status, no pod status
         "notReady": true,        the kubelet reports Ready=False
         "pressures": ["DiskPressure"],  conditions that the kubelet reports as True; no eviction
         "gpus": 3,               number of allocatable GPUs
         "resources": {"a.b/c": 1},  allocatable units of other extended resources
         "evict": true}}}         all pods of the node are evicted, including new pods

Without the ConfigMap, the command-line options apply. An invalid ConfigMap is logged and ignored.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gpuplatform.dev.simulator.kubelet.options import GPU, Options

Manifest: TypeAlias = dict[str, Any]

NAMESPACE = "kube-system"
NAME = "simulated-kubelet"
KEY = "control"


@dataclass(frozen=True, slots=True)
class NodeControl:
    """The fault injection settings of a node."""

    failed: bool = False
    not_ready: bool = False
    evict: bool = False
    pressures: frozenset[str] = frozenset()
    gpus: int | None = None
    resources: Mapping[str, int] = field(default_factory=dict)

    def devices(self, options: Options) -> dict[str, int]:
        """Return the number of allocatable units of each extended resource."""
        lost = {**self.resources, **({} if self.gpus is None else {GPU: self.gpus})}
        return {name: min(lost.get(name, n), n) for name, n in options.devices().items()}


@dataclass(frozen=True, slots=True)
class Control:
    """The parsed control object."""

    start_delay_seconds: float | None = None
    hold_terminating: bool = False
    nodes: dict[str, NodeControl] = field(default_factory=dict)

    def node(self, name: str) -> NodeControl:
        """Return the fault injection settings of a node."""
        return self.nodes.get(name, NodeControl())


def parse_control(config_map: Manifest) -> Control:
    """Parse the control object.

    Raises:
        ValueError: If the JSON has unknown keys or wrong types.
    """
    desired = json.loads((config_map.get("data") or {}).get(KEY, "{}"))
    try:
        _check_keys(desired, {"startDelaySeconds", "holdTerminating", "nodes"})
        delay = desired.get("startDelaySeconds")
        return Control(
            start_delay_seconds=None if delay is None else float(delay),
            hold_terminating=bool(desired.get("holdTerminating", False)),
            nodes={name: _node(entry) for name, entry in desired.get("nodes", {}).items()},
        )
    except (AttributeError, TypeError) as error:
        raise ValueError(f"the control object has a wrong shape: {error}") from error


def _node(entry: Manifest) -> NodeControl:
    _check_keys(entry, {"failed", "notReady", "evict", "pressures", "gpus", "resources"})
    gpus = entry.get("gpus")
    return NodeControl(
        failed=bool(entry.get("failed", False)),
        not_ready=bool(entry.get("notReady", False)),
        evict=bool(entry.get("evict", False)),
        pressures=frozenset(map(str, entry.get("pressures", []))),
        gpus=None if gpus is None else int(gpus),
        resources={name: int(number) for name, number in entry.get("resources", {}).items()},
    )


def _check_keys(entry: Manifest, known: set[str]) -> None:
    unknown = entry.keys() - known
    if unknown:
        raise ValueError(f"the control object has unknown keys: {', '.join(sorted(unknown))}")
