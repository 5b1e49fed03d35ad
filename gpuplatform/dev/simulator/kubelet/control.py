"""The control object: what tests tell the played nodes to do.

A ConfigMap `kube-system/simulated-kubelet`, whose key `control` is JSON. All keys are optional:

    {"startDelaySeconds": 5,      from binding to running
     "holdTerminating": true,     pods that are being deleted stay
     "nodes": {"gpu-node-1": {
         "failed": true,          the machine is silent: no lease, no status, its pods freeze
         "notReady": true,        the kubelet says Ready=False
         "gpus": 3,               the others vanish from allocatable
         "evict": true}}}         every pod of the node is evicted, and new ones are refused

No ConfigMap: everything is as the options say. One that cannot be read is logged and changes
nothing.
"""

import json
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Manifest: TypeAlias = dict[str, Any]

NAMESPACE = "kube-system"
NAME = "simulated-kubelet"
KEY = "control"


@dataclass(frozen=True, slots=True)
class NodeControl:
    """What is wrong with one node."""

    failed: bool = False
    not_ready: bool = False
    evict: bool = False
    gpus: int | None = None


@dataclass(frozen=True, slots=True)
class Control:
    """What is asked of all nodes."""

    start_delay_seconds: float | None = None
    hold_terminating: bool = False
    nodes: dict[str, NodeControl] = field(default_factory=dict)

    def node(self, name: str) -> NodeControl:
        """Return what is asked of one node."""
        return self.nodes.get(name, NodeControl())


def parse_control(config_map: Manifest) -> Control:
    """Read the ConfigMap.

    Raises:
        ValueError: it is not as described above.
    """
    wanted = json.loads((config_map.get("data") or {}).get(KEY, "{}"))
    try:
        _check_keys(wanted, {"startDelaySeconds", "holdTerminating", "nodes"})
        delay = wanted.get("startDelaySeconds")
        return Control(
            start_delay_seconds=None if delay is None else float(delay),
            hold_terminating=bool(wanted.get("holdTerminating", False)),
            nodes={name: _node(entry) for name, entry in wanted.get("nodes", {}).items()},
        )
    except (AttributeError, TypeError) as error:
        raise ValueError(f"the control object has a wrong shape: {error}") from error


def _node(entry: Manifest) -> NodeControl:
    _check_keys(entry, {"failed", "notReady", "evict", "gpus"})
    gpus = entry.get("gpus")
    return NodeControl(
        failed=bool(entry.get("failed", False)),
        not_ready=bool(entry.get("notReady", False)),
        evict=bool(entry.get("evict", False)),
        gpus=None if gpus is None else int(gpus),
    )


def _check_keys(entry: Manifest, known: set[str]) -> None:
    unknown = entry.keys() - known
    if unknown:
        raise ValueError(f"the control object has unknown keys: {', '.join(sorted(unknown))}")
