"""Images that are not on the node: what the platform reports, and that pods start at the end."""

import base64

import pytest

from gpuplatform.kube.kinds import NODE, SECRET
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.startup import POD_STARTUP_FAILED
from tests.cluster.tenant_units import Units
from tests.cluster.world import World
from tests.node import registry
from tests.node.cluster import NodeCluster
from tests.node.images import APP
from tests.node.pods import HTTP, address, describe
from units.models import UnitHistory

pytestmark = [
    pytest.mark.node,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

MEMORY = "64Mi"


def test_a_private_registry_accepts_the_pull_secret(
    installed: World, units: Units, nodes: NodeCluster
) -> None:
    content = registry.pull_secret(nodes.registry).encode()
    data = {".dockerconfigjson": base64.b64encode(content).decode()}
    manifest = {
        "metadata": {"name": "registry"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": data,
    }
    installed.create(SECRET, manifest)
    template = {**HTTP, "imagePullSecrets": [{"name": "registry"}]}
    units.seed(1, memory=MEMORY)

    units.create("a", image=f"{nodes.registry}/private/app:secret", template=template)

    row = units.settle("a", "Ready", "UnitReady")
    [pod] = units.pods(row)
    assert describe(address(pod))["environment"]["PULLED"] == "yes"


@pytest.mark.parametrize("folder", ["private", "refused"])
def test_a_registry_that_denies_access_is_reported(
    units: Units, nodes: NodeCluster, folder: str
) -> None:
    units.seed(1, memory=MEMORY)

    units.create("a", image=f"{nodes.registry}/{folder}/app:denied")

    row = units.settle("a", "Failed", POD_STARTUP_FAILED)
    assert row.cause == StartupCause.IMAGE_PULL_FAILED
    assert row.image in row.message


def test_a_registry_that_limits_the_rate_delays_a_unit(units: Units, nodes: NodeCluster) -> None:
    units.seed(1, memory=MEMORY)

    units.create("a", image=f"{nodes.registry}/throttled/app:1")

    units.until(lambda: units.row("a").cause == StartupCause.IMAGE_PULL_FAILED)
    delayed = units.row("a")
    assert (delayed.phase, delayed.reason) == ("Progressing", "UnitProgressing")
    assert units.settle("a", "Ready", "UnitReady").cause == ""


def test_a_slow_registry_delays_a_unit_without_a_failure(units: Units, nodes: NodeCluster) -> None:
    units.seed(1, memory=MEMORY)

    units.create("a", image=f"{nodes.registry}/slow/other:1")

    units.until(lambda: units.row("a").phase == "Progressing")
    row = units.settle("a", "Ready", "UnitReady")
    assert not UnitHistory.objects.filter(unit=row, phase="Failed").exists()


@pytest.fixture
def image_of_first_node(nodes: NodeCluster) -> str:
    """An image that only the first node has, and that no registry serves."""
    image = "docker.io/library/only-on-one-node:1"
    done = nodes.nodes[0].run("ctr", "-n", "k8s.io", "images", "tag", "--force", APP, image)
    assert done.returncode == 0, done.stdout
    return image


def test_an_image_that_one_of_two_nodes_has_is_reported_where_it_is_missing(
    installed: World, units: Units, nodes: NodeCluster, image_of_first_node: str
) -> None:
    first, second = nodes.nodes

    def cordon(name: str, *, is_cordoned: bool) -> None:
        installed.patch(NODE, name, {"spec": {"unschedulable": is_cordoned}})

    cordon(first.name, is_cordoned=True)
    try:
        units.seed(1, memory=MEMORY)
        units.create("a", image=image_of_first_node)
        row = units.settle("a", "Failed", POD_STARTUP_FAILED)
        [missing] = units.pods(row)
    finally:
        cordon(first.name, is_cordoned=False)
    units.delete("a")
    cordon(second.name, is_cordoned=True)
    try:
        units.seed(1, memory=MEMORY)
        units.create("b", image=image_of_first_node)
        [running] = units.pods(units.settle("b", "Ready", "UnitReady"))
    finally:
        cordon(second.name, is_cordoned=False)

    assert row.cause == StartupCause.IMAGE_PULL_FAILED
    assert image_of_first_node in row.message
    assert missing["spec"]["nodeName"] == second.name
    assert running["spec"]["nodeName"] == first.name
