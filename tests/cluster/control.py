"""What tests tell the simulated nodes to do; see `gpuplatform.dev.simulator.kubelet.control`."""

import itertools
import json
from typing import Any

from gpuplatform.dev.simulator.kubelet.control import KEY, NAME, NAMESPACE
from gpuplatform.kube.kinds import CONFIG_MAP, NODE
from tests.cluster.world import World, condition

WITNESS = "gpu-node-1"
"""This node shows, by the number of its GPUs, that the kubelets have read the control object."""
GPUS = 8


class Control:
    """Writes the control object; each call replaces what was asked before."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lost: dict[str, Any] = {}
        self._numbers = itertools.cycle((GPUS - 1, GPUS - 2))

    def __call__(self, nodes: dict[str, object] | None = None, **words: object) -> None:
        """Return when the kubelets follow it."""
        gpus = next(self._numbers)
        control = {**words, "nodes": {**(nodes or {}), WITNESS: {"gpus": gpus}}}
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "data": {KEY: json.dumps(control)},
        }
        self._world.cluster.apply(CONFIG_MAP, manifest, field_manager="rules")
        self._wait_for(gpus)

    def node(self, name: str, **words: object) -> None:
        """Ask something of one node."""
        self(nodes={name: words})

    def lose(self, name: str) -> None:
        """Silence a node and take it out of the cluster, as an operator does with a dead one."""
        self.node(name, failed=True)
        self._lost[name] = self._world.get(NODE, name)["metadata"]["labels"]
        self._world.cluster.delete(NODE, name)

    def find_again(self) -> None:
        """Bring the nodes that were lost back, without what they ran; return when all are well."""
        for name, labels in self._lost.items():
            if self._world.find(NODE, name) is None:
                metadata = {"name": name, "labels": labels}
                node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
                self._world.cluster.create(NODE, node)
        self._lost.clear()
        self.clear()

    def clear(self) -> None:
        """Ask nothing more; return when every node is well."""
        self._world.cluster.delete(CONFIG_MAP, NAME, namespace=NAMESPACE)
        self._wait_for(GPUS)
        self._world.until(lambda: all(map(_is_well, self._world.cluster.list(NODE).items)))

    def _wait_for(self, gpus: int) -> None:
        def seen() -> bool:
            status = self._world.get(NODE, WITNESS)["status"]
            return bool(status["allocatable"]["nvidia.com/gpu"] == str(gpus))

        self._world.until(seen)


def _is_well(node: dict[str, object]) -> bool:
    spec = node["spec"]
    has_taints = isinstance(spec, dict) and bool(spec.get("taints"))
    return condition(node, "Ready").get("status") == "True" and not has_taints
