"""The simulated cluster starts from every state that it has persisted."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import NODE, POD, Manifest
from gpuplatform.kube.modes import KubeMode, open_cluster
from tests.cluster import servers
from tests.cluster.odd_statuses import Statuses
from tests.cluster.world import Http, World, is_ready, pod

pytestmark = pytest.mark.cluster

NODE_NAME = "gpu-node-1"
PODS = 10
KUBELET = [sys.executable, "-m", "gpuplatform.dev.simulator.kubelet", "--nodes", "1"]


@contextlib.contextmanager
def started(folder: Path) -> Iterator[World]:
    """Run the simulated API server with the state of the folder."""
    with servers._simulator(folder) as kubeconfig, contextlib.ExitStack() as stack:
        cluster = open_cluster(KubeMode.REQUIRED, str(kubeconfig))
        assert isinstance(cluster, Cluster)
        stack.callback(cluster.close)
        http = Http(kubeconfig)
        stack.callback(http.close)
        yield World("simulator", kubeconfig, cluster, http, "default")


def test_the_cluster_starts_again_from_odd_statuses(tmp_path: Path) -> None:
    statuses = Statuses(seed=4)
    names = [f"pod-{number}" for number in range(PODS)]
    command = [*KUBELET, *servers.FAST, "--kubeconfig", str(tmp_path / "kubeconfig")]
    with started(tmp_path) as world:
        with servers.process(command, tmp_path / "first.log"):
            world.until(lambda: is_ready(world.find(NODE, NODE_NAME) or {}))
            for name in names:
                world.create(POD, pod(name, nodeName=NODE_NAME))
            world.until(lambda: all(is_ready(world.get(POD, name)) for name in names))
        for name in names:
            odd = {"status": statuses.odd(statuses.pod())}
            world.http(
                "PATCH", world.path(POD, name, "status"), odd, "application/merge-patch+json"
            )
        null: Manifest = {"status": {"containerStatuses": [None], "conditions": None}}
        world.patch(POD, names[0], null, "status")
        world.patch(NODE, NODE_NAME, {"status": {"conditions": [{}], "addresses": []}}, "status")

    with (
        started(tmp_path) as world,
        servers.process(command, tmp_path / "second.log") as kubelet,
    ):
        world.until(lambda: is_ready(world.get(NODE, NODE_NAME)))
        world.until(lambda: all(is_ready(world.get(POD, name)) for name in names))
        assert kubelet.poll() is None
        assert "Unexpected" not in (tmp_path / "second.log").read_text()
