"""The control object of the simulated nodes; see `gpuplatform.dev.simulator.kubelet.control`."""

import itertools
import json

from gpuplatform.dev.simulator.kubelet.control import KEY, NAME, NAMESPACE
from gpuplatform.kube.kinds import CONFIG_MAP, NODE
from tests.cluster.world import World, condition

WITNESS = "gpu-node-1"
"""The number of GPUs of this node shows which control object the kubelets have read."""
GPUS = 8


class Control:
    """Writes the control object; each call replaces it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lost: dict[str, dict[str, str]] = {}
        self._numbers = itertools.cycle((GPUS - 1, GPUS - 2))

    def __call__(self, nodes: dict[str, object] | None = None, **settings: object) -> None:
        """Wait until the kubelets have read it."""
        gpus = next(self._numbers)
        control = {**settings, "nodes": {**(nodes or {}), WITNESS: {"gpus": gpus}}}
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "data": {KEY: json.dumps(control)},
        }
        self._world.cluster.apply(CONFIG_MAP, manifest, field_manager="rules")
        self._wait_for(gpus)

    def node(self, name: str, **settings: object) -> None:
        """Set the faults of one node."""
        self(nodes={name: settings})

    def lose(self, name: str) -> None:
        """Stop the heartbeats of a node and delete it, as an operator does with a failed one."""
        self.node(name, failed=True)
        labels: dict[str, str] = self._world.get(NODE, name)["metadata"]["labels"]
        self._lost[name] = labels
        self._world.cluster.delete(NODE, name)

    def replace(self, name: str, **labels: str) -> None:
        """Delete a failed node, and add one with its name and other labels."""
        self.lose(name)
        self._lost[name] |= labels
        self.clear()

    def clear(self) -> None:
        """Clear the control object and add deleted nodes again; wait until all nodes are ready.

        No kubelet registers a deleted node again before it restarts, as with real kubelets.
        """
        for name, labels in self._lost.items():
            if self._world.find(NODE, name) is None:
                metadata = {"name": name, "labels": labels}
                node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
                self._world.cluster.create(NODE, node)
        self._lost.clear()
        self._world.cluster.delete(CONFIG_MAP, NAME, namespace=NAMESPACE)
        self._wait_for(GPUS)
        self._world.until(lambda: all(map(_is_ready, self._world.cluster.list(NODE).items)))

    def _wait_for(self, gpus: int) -> None:
        def seen() -> bool:
            status = self._world.get(NODE, WITNESS)["status"]
            return bool(status["allocatable"]["nvidia.com/gpu"] == str(gpus))

        self._world.until(seen)


def _is_ready(node: dict[str, object]) -> bool:
    spec = node["spec"]
    has_taints = isinstance(spec, dict) and bool(spec.get("taints"))
    return condition(node, "Ready").get("status") == "True" and not has_taints
