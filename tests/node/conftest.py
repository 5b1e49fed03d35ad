"""A cluster of real nodes for the session, and the platform on it (`make test-node`)."""

import itertools
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command
from pytest_django.fixtures import Settings

from gpuplatform.deployment.installation import CRDS
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import NAMESPACE, SERVICE_ACCOUNT
from gpuplatform.kube.modes import KubeMode, close_clusters, open_cluster
from gpuplatform.process_local import ProcessLocal
from gpuplatform.reconciliation import epoch
from tests.cluster.controlplane.launcher import stop_when_asked
from tests.cluster.tenant_units import Units
from tests.cluster.world import Http, World
from tests.node.builds import all_built
from tests.node.cluster import NodeCluster
from tests.node.images import BUSYBOX

LOGS = Path(__file__).resolve().parents[2] / ".data" / "reports" / "nodes"
"""The logs of the nodes of the last run."""
_NUMBERS = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--without-policies",
        action="store_true",
        help="Run the nodes without kube-router, and skip the tests of policies.",
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    is_without = item.config.getoption("--without-policies", default=False)
    if is_without and item.get_closest_marker("policies"):
        pytest.skip("The option --without-policies is set: nothing enforces network policies.")


@pytest.fixture(scope="session", autouse=True)
def _loopback_only() -> None:
    """Allow the network of the nodes: this network namespace has access to no other network."""


@pytest.fixture(scope="session")
def nodes(request: pytest.FixtureRequest) -> Iterator[NodeCluster]:
    """Two real nodes with eight GPUs each, and their control plane."""
    shutil.rmtree(LOGS, ignore_errors=True)
    signal.signal(signal.SIGTERM, stop_when_asked)  # pytest then ends its fixtures.
    builds = all_built(has_policies=not request.config.getoption("--without-policies"))
    with NodeCluster(builds, definitions=CRDS, logs=LOGS) as running:
        yield running


@pytest.fixture(scope="session")
def cluster(nodes: NodeCluster) -> Iterator[Cluster]:
    """A client of the platform."""
    client = open_cluster(KubeMode.REQUIRED, str(nodes.kubeconfig))
    assert client is not None
    yield client
    client.close()


@pytest.fixture(scope="session")
def http(nodes: NodeCluster) -> Iterator[Http]:
    """Raw requests to the API server."""
    requests = Http(nodes.kubeconfig)
    yield requests
    requests.close()


@pytest.fixture
def world(nodes: NodeCluster, cluster: Cluster, http: Http) -> Iterator[World]:
    """The cluster with a namespace for this test, in which pods can be created."""
    name = f"node-{os.getpid()}-{next(_NUMBERS)}"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    cluster.create(NAMESPACE, namespace)
    made = World("nodes", nodes.kubeconfig, cluster, http, name)
    made.until(lambda: made.find(SERVICE_ACCOUNT, "default"))
    yield made
    made.clear()
    nodes.check_alive()


@pytest.fixture
def installed(
    world: World, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    """The platform in the cluster, with a separate epoch."""
    settings.KUBE_MODE = "required"
    settings.KUBECONFIG = str(world.kubeconfig)
    settings.GPUPLATFORM_SYSTEM_NAMESPACE = f"{world.namespace}-system"
    settings.RESERVATION_IMAGE = BUSYBOX
    monkeypatch.setattr(epoch, "_COMPARED", ProcessLocal(threading.Event))
    close_clusters()
    call_command("install_cluster", verbosity=0)
    yield world
    close_clusters()


@pytest.fixture
def units(installed: World) -> Iterator[Units]:
    """A tenant with the namespace of this test; its stock is deleted at the end."""
    made = Units(installed.cluster, installed.namespace)
    yield made
    made.clear()
