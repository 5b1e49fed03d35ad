"""A real control plane with real nodes, inside the network and mount namespaces of this process.

Everything ends with this process, also when it is killed; empty control groups and the folder of
the cluster are then removed by the next start.
"""

import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.cluster.controlplane.flags import KUBE_PROXY, RealNodes, node_user
from tests.cluster.controlplane.launcher import ControlPlane
from tests.cluster.controlplane.programs import CannotStart
from tests.cluster.world import Http, condition
from tests.node import configuration, network, registry
from tests.node.builds import Builds
from tests.node.images import PRELOADED, REGISTRY
from tests.node.node import GPUS, START_SECONDS, Node
from tests.node.runs import run_folder

MOST_NODES = 9
BACK_OFF_SECONDS = 5
"""Maximum back-off of a crashed container; the default of a kubelet is five minutes."""
PAUSE_SECONDS = 0.1


class NodeCluster:
    """A cluster of real nodes, as a context manager.

    `definitions` are custom kinds that exist from the start. `logs` is the directory of the logs
    of the nodes; by default it is deleted with the cluster.
    """

    def __init__(
        self,
        builds: Builds,
        nodes: int = 2,
        *,
        definitions: Sequence[Mapping[str, Any]] = (),
        logs: Path | None = None,
        back_off_seconds: int = BACK_OFF_SECONDS,
    ) -> None:
        self._builds = builds
        self._count = nodes
        self._definitions = definitions
        self._logs = logs
        self._back_off_seconds = back_off_seconds
        self._stack = contextlib.ExitStack()
        self.nodes: list[Node] = []
        self.folder = Path()
        self.registry = ""
        """The address of the registry in the network of the nodes."""
        self.plane: ControlPlane | None = None

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of an administrator, for this network namespace."""
        assert self.plane is not None
        return self.plane.kubeconfig

    def __enter__(self) -> Self:
        if not network.is_isolated():
            raise CannotStart(
                "Real nodes start only in a network namespace of a test run: use `make test-node`"
                " or `make cluster NODES=real`."
            )
        with contextlib.ExitStack() as unless_started:
            unless_started.callback(self._stack.close)
            self._start()
            unless_started.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def check_alive(self) -> None:
        """Check that no program has ended.

        Raises:
            CannotStart: a program has ended; with the last lines of its log.
        """
        assert self.plane is not None
        self.plane.check_alive()
        for node in self.nodes:
            node.check_alive()

    def wait_until_ready(self) -> None:
        """Wait until every node is ready and its GPUs can be allocated."""
        deadline = time.monotonic() + START_SECONDS
        with contextlib.closing(Http(self.kubeconfig)) as http:
            while len(ready := _ready_nodes(http)) < self._count:
                self.check_alive()
                if time.monotonic() > deadline:
                    late = next(node for node in self.nodes if node.name not in ready)
                    lines = late.last_lines("kubelet")
                    raise CannotStart(f"{late.name} was not ready in time: {lines}")
                time.sleep(PAUSE_SECONDS)

    def _start(self) -> None:
        network.create()
        self.folder = self._stack.enter_context(run_folder())
        logs = self._logs or self.folder / "logs"
        numbers = range(1, self._count + 1)
        self.nodes = [Node(number, self.folder, logs) for number in numbers]
        real_nodes = RealNodes(network.ADDRESS, [node.name for node in self.nodes])
        for node in self.nodes:
            self._stack.callback(node.stop)
            self._prepare(node)
            node.boot(self._builds.packages)
            node.start_runtime()
        self.plane = self._stack.enter_context(
            ControlPlane(
                self.folder / "controlplane",
                definitions=self._definitions,
                real_nodes=real_nodes,
            )
        )
        serving = registry.serving(self._builds.images / REGISTRY, network.ADDRESS)
        self.registry = self._stack.enter_context(serving)
        for node in self.nodes:
            self._join(node, self.plane)
        self.wait_until_ready()
        if self._builds.kube_router:
            for node in self.nodes:
                node.start_router()

    def _prepare(self, node: Node) -> None:
        texts = configuration.files(
            name=node.name,
            address=node.address,
            pod_network=network.pod_network(node.number),
            cluster_network=network.POD_NETWORK,
            registry=f"{network.ADDRESS}:{registry.PORT}",
            back_off_seconds=self._back_off_seconds,
        )
        programs = {"kubernetes": self._builds.kubernetes, "pause": self._builds.pause}
        if self._builds.kube_router:
            programs["kube-router"] = self._builds.kube_router
        node.prepare(texts, programs)

    def _join(self, node: Node, plane: ControlPlane) -> None:
        """Start the programs that need the control plane."""
        users = {
            configuration.KUBELET_KUBECONFIG: plane.kubeconfig_of(node_user(node.name)),
            configuration.PROXY_KUBECONFIG: plane.kubeconfig_of(KUBE_PROXY),
            configuration.ROUTER_KUBECONFIG: plane.kubeconfig.read_text("utf-8"),
        }
        for name, text in users.items():
            path = node.folder / "etc" / name
            path.touch(mode=0o600)
            path.write_text(text, "utf-8")
        node.wait_for_runtime()
        node.import_images(sorted((self._builds.images / PRELOADED).iterdir()))
        node.start_kubelet()
        node.start_proxy()
        node.start_gpus()


def _ready_nodes(http: Http) -> list[str]:
    """Return the names of the nodes that are ready and have their GPUs."""
    return [
        node["metadata"]["name"]
        for node in http("GET", "/api/v1/nodes").body["items"]
        if condition(node, "Ready").get("status") == "True"
        and not node["spec"].get("taints")
        and node["status"]["allocatable"].get("nvidia.com/gpu") == str(GPUS)
    ]
