"""`deploy/` on a real control plane: it is accepted, and permissions are exactly the used ones."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gpuplatform.deployment.permissions import ACCOUNTS
from gpuplatform.dev.embedded.data_directory import remove_data
from gpuplatform.dev.embedded.processes import wait_until
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import (
    CLUSTER_ROLE,
    CONFIG_MAP,
    EPOCH_CONFIG_MAP,
    GPU_UNIT,
    POD,
    Manifest,
)
from gpuplatform.kube.modes import KubeMode, open_cluster
from gpuplatform.planning.ownership import controller_reference
from gpuplatform.planning.view import ResourceView
from gpuplatform.reconciliation import epoch
from gpuplatform.reconciliation.models import ClusterState
from tests.cluster.accounts import (
    SYSTEM_NAMESPACE,
    AuditLog,
    account_kubeconfigs,
    kubectl,
    may,
)
from tests.cluster.deployed import DeployedPlatform, walk_pool, walk_tenants, walk_unit
from tests.cluster.servers import REPOSITORY, Servers

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("deploy"),
]

DEPLOY = REPOSITORY / "deploy"
DEPLOYMENTS = {
    "web": 2,
    "operations": 2,
    "reconcile": 2,
    "periodic": 1,
    "beat": 1,
    "controller": 2,
    "activator": 2,
    "results": 2,
}
COMPONENT = "app.kubernetes.io/component"
ADMITTED_SECONDS = 30
FIRST = ("operations", "reconcile", "periodic", "controller", "activator")
"""The first of these processes on a cluster writes the epoch."""


@pytest.fixture(scope="module")
def plane(pytestconfig: pytest.Config) -> Iterator[Path]:
    """A control plane for this module, since all of `deploy/` is applied to a new one."""
    if pytestconfig.getoption("--server") == "simulator":
        pytest.skip("the simulator has no RBAC and no pod security, and does not claim to")
    servers = Servers(definitions=())
    try:
        yield servers.kubeconfig("controlplane")
    finally:
        servers.stop()


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation with every optional component."""
    folder = tmp_path_factory.mktemp("overlay")
    deploy = os.path.relpath(DEPLOY, folder)  # kustomize rejects absolute paths.
    (folder / "kustomization.yaml").write_text(
        f"resources: [{deploy}/base]\ncomponents: [{deploy}/components/serverless]\n"
    )
    return folder


@pytest.fixture(scope="module")
def applied(plane: Path, overlay: Path) -> dict[Path, str]:
    """The output of kubectl by folder: dry-runs of base and example; the overlay is applied."""
    kubectl(plane, "apply", "--server-side", "-f", str(DEPLOY / "base" / "namespaces.yaml"))
    apply, trial = ("apply", "--server-side", "-k"), "--dry-run=server"
    outputs = {
        folder: kubectl(plane, *apply, str(folder), trial)
        for folder in (DEPLOY / "overlay-example", DEPLOY / "base")
    }
    outputs[overlay] = kubectl(plane, *apply, str(overlay))
    kubectl(plane, "wait", "--for=condition=Established", "crd", "--all")
    return outputs


@pytest.fixture(scope="module")
def accounts(
    plane: Path, applied: dict[Path, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """The kubeconfig of each process's account."""
    return account_kubeconfigs(plane, tmp_path_factory.mktemp("accounts"))


@pytest.fixture
def cluster(plane: Path, applied: dict[Path, str]) -> Iterator[Cluster]:
    """The client of an administrator."""
    client = opened(plane)
    yield client
    client.close()


def opened(kubeconfig: Path) -> Cluster:
    """Return a client with the permissions of a kubeconfig."""
    client = open_cluster(KubeMode.REQUIRED, str(kubeconfig))
    assert client is not None
    return client


def test_every_object_is_accepted(applied: dict[Path, str], plane: Path) -> None:
    for folder, words in applied.items():
        objects = list(yaml.safe_load_all(kubectl(plane, "kustomize", str(folder))))
        assert words.count("serverside-applied") == len(objects)
        assert "Warning" not in words


@pytest.mark.parametrize("way", ["--dry-run=server", "--dry-run=none"])
def test_samples_are_accepted(applied: dict[Path, str], plane: Path, way: str) -> None:
    output = kubectl(plane, "apply", "--server-side", way, "-k", str(DEPLOY / "samples"))
    kubectl(plane, "delete", "--ignore-not-found", "-k", str(DEPLOY / "samples"))

    assert output.count("serverside-applied") == 3
    assert "Warning" not in output


def test_the_example_of_a_secret_is_accepted(applied: dict[Path, str], plane: Path) -> None:
    path = DEPLOY / "overlay-example" / "secret.example.yaml"

    output = kubectl(plane, "apply", "--server-side", "--dry-run=server", "-f", str(path))

    assert "serverside-applied" in output


def test_every_pod_is_admitted_where_the_level_is_restricted(cluster: Cluster) -> None:
    wanted = {**DEPLOYMENTS, "migrate": 1}

    def admitted() -> bool:
        pods = cluster.list(POD, namespace=SYSTEM_NAMESPACE).items
        return wanted == Counter(pod["metadata"]["labels"][COMPONENT] for pod in pods)

    assert wait_until(admitted, ADMITTED_SECONDS)


def test_a_pod_that_is_less_than_restricted_is_refused(
    applied: dict[Path, str], plane: Path, cluster: Cluster
) -> None:
    pods = cluster.list(POD, namespace=SYSTEM_NAMESPACE).items
    spec = {**pods[0]["spec"], "securityContext": {}, "nodeName": ""}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lax"}, "spec": spec}

    with pytest.raises(AssertionError, match='violates PodSecurity "restricted'):
        kubectl(
            *(plane, "-n", SYSTEM_NAMESPACE, "create", "--dry-run=server", "-f", "-"),
            text=yaml.safe_dump(pod),
        )


def test_one_more_namespace_gets_permissions_there_and_nowhere_else(
    applied: dict[Path, str], plane: Path, tmp_path: Path
) -> None:
    kubectl(plane, "create", "namespace", "team-a")
    kubectl(plane, "create", "namespace", "team-b")
    # kustomize accepts only relative paths of folders.
    base = Path(*[".."] * (len(tmp_path.parts) - 1), *(DEPLOY / "namespace").parts[1:])
    (tmp_path / "kustomization.yaml").write_text(f"namespace: team-a\nresources: [{base}]\n")

    kubectl(plane, "apply", "--server-side", "-k", str(tmp_path))

    assert may(plane, "operations", "create", "stockpools", "team-a")
    assert may(plane, "reconcile", "create", "deployments", "team-a")
    assert may(plane, "web", "list", "events", "team-a")
    assert not may(plane, "reconcile", "create", "deployments", "team-b")
    assert not may(plane, "reconcile", "create", "deployments", "kube-system")


@pytest.mark.parametrize("process", ["beat", "migrate", "results"])
def test_a_process_without_token_may_nothing(
    applied: dict[Path, str], plane: Path, process: str
) -> None:
    for resource in ("secrets", "pods", "configmaps", "stockpools"):
        assert not may(plane, process, "list", resource, SYSTEM_NAMESPACE)


def test_an_owner_reference_needs_the_right_on_the_owner(
    cluster: Cluster, accounts: dict[str, Path]
) -> None:
    name = "gpu-platform-reconcile-workloads"
    role = cluster.get(CLUSTER_ROLE, name)
    assert role is not None
    kept = [r for r in role["rules"] if not r["resources"][0].endswith("/finalizers")]
    owner = cluster.create(
        GPU_UNIT,
        {
            "apiVersion": GPU_UNIT.api_version,
            "kind": GPU_UNIT.kind,
            "metadata": {"name": "owner", "namespace": "runtime-instance"},
            "spec": {"specName": "g1.1"},
        },
    )
    owned = deployment_of(owner)

    def create() -> str:
        return kubectl(
            *(accounts["reconcile"], "create", "--dry-run=server", "-f", "-"),
            text=yaml.safe_dump(owned),
        )

    assert "created" in create()
    cluster.merge_patch(CLUSTER_ROLE, name, {"rules": kept})
    with pytest.raises(AssertionError, match="cannot set blockOwnerDeletion"):
        # The API server applies the change with a delay.
        wait_until(lambda: not create(), ADMITTED_SECONDS)
    cluster.merge_patch(CLUSTER_ROLE, name, {"rules": role["rules"]})
    cluster.delete(GPU_UNIT, "owner", namespace="runtime-instance")


def deployment_of(owner: Manifest) -> Manifest:
    """Return a Deployment that blocks the deletion of its owner."""
    reference = controller_reference(ResourceView.of(owner))
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "owned",
            "namespace": "runtime-instance",
            "ownerReferences": [reference],
        },
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "owned"}},
            "template": {
                "metadata": {"labels": {"app": "owned"}},
                "spec": {"containers": [{"name": "c", "image": "busybox:1.36"}]},
            },
        },
    }


@pytest.mark.django_db
def test_the_accounts_have_the_permissions_that_are_used_and_no_other(
    plane: Path, cluster: Cluster, accounts: dict[str, Path], tmp_path: Path
) -> None:
    log = AuditLog(plane)
    for process in FIRST:
        be_the_first(cluster, accounts[process])
    platform = DeployedPlatform(tmp_path, plane, accounts)
    try:
        platform.start_all()
        walk_pool(platform)
        walk_unit(platform)
        walk_tenants(platform)
        platform.wait_for_sample()
        platform.recover()
    except AssertionError:
        assert log.refused() == []  # It contains the cause.
        raise
    finally:
        platform.stop_all()
        remove_data(tmp_path / "data")

    assert log.refused() == []
    assert [words for account in ACCOUNTS for words in log.unused(account)] == []
    assert log.processes() == {"web", *FIRST}


def be_the_first(cluster: Cluster, kubeconfig: Path) -> None:
    """Act as the first process on a cluster without an epoch, then delete the epoch."""
    ClusterState.objects.all().delete()
    account = opened(kubeconfig)
    assert epoch.compare(account) == ""
    account.close()
    cluster.delete(CONFIG_MAP, EPOCH_CONFIG_MAP, namespace=SYSTEM_NAMESPACE)
