"""`install_cluster` installs the required objects, is idempotent, and reports errors."""

from io import StringIO

import pytest
import yaml
from django.core.management import CommandError, call_command
from pytest_django import Settings

from gpuplatform.deployment.permissions import ACCOUNTS
from gpuplatform.kube.errors import ClusterForbidden, ClusterUnavailable
from gpuplatform.kube.kinds import (
    CLUSTER_ROLE_BINDING,
    CUSTOM_RESOURCE_DEFINITION,
    NAMESPACE,
    NETWORK_POLICY,
    PRIORITY_CLASS,
    ROLE_BINDING,
    SERVICE_ACCOUNT,
)
from tests.fakes.cluster import FakeCluster


def install(*arguments: str) -> str:
    output = StringIO()
    call_command("install_cluster", *arguments, stdout=output)
    return output.getvalue()


def establish(cluster: FakeCluster) -> None:
    """Serve each new kind immediately."""

    def serve(verb: str, kind: object) -> None:
        if verb == "get" and kind is CUSTOM_RESOURCE_DEFINITION:
            for found in cluster.list(CUSTOM_RESOURCE_DEFINITION).items:
                status = {"conditions": [{"type": "Established", "status": "True"}]}
                cluster.put(CUSTOM_RESOURCE_DEFINITION, {**found, "status": status})

    cluster.on_call = serve


def test_a_dry_run_prints_manifests_without_a_request(cluster: FakeCluster) -> None:
    found = list(yaml.safe_load_all(install("--dry-run")))

    assert {manifest["kind"] for manifest in found} == {
        "Namespace",
        "NetworkPolicy",
        "PriorityClass",
        "CustomResourceDefinition",
    }
    assert cluster.writes == []


def test_a_dry_run_needs_no_cluster(settings: Settings) -> None:
    settings.KUBE_MODE = "off"

    assert "kind: Namespace" in install("--dry-run")


def test_it_applies_namespaces_first_and_everything_once(cluster: FakeCluster) -> None:
    establish(cluster)

    install()

    assert cluster.names(NAMESPACE) == [
        "gpu-platform",
        "runtime-instance",
        "runtime-pools",
        "runtime-stock",
    ]
    assert cluster.names(PRIORITY_CLASS) == ["gpu-platform-stock", "gpu-platform-unit"]
    assert cluster.names(CUSTOM_RESOURCE_DEFINITION) == [
        "gpuunits.runtime.lokiwager.io",
        "stockpools.runtime.lokiwager.io",
    ]
    assert cluster.names(NETWORK_POLICY) == [
        "gpu-platform",
        "gpu-platform-units",
        "gpu-platform-units",
        "gpu-platform-workers",
    ]
    assert cluster.writes[0].startswith("apply Namespace")


def test_it_prepares_the_namespaces_of_pools(cluster: FakeCluster, settings: Settings) -> None:
    establish(cluster)
    settings.POOL_NAMESPACES = ("runtime-pools", "pools")

    install("--accounts")

    found = cluster.get(NAMESPACE, "pools")
    assert found is not None
    assert found["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "baseline"
    assert cluster.get(NETWORK_POLICY, "gpu-platform-units", namespace="pools") is not None
    bindings = cluster.list(ROLE_BINDING, namespace="pools").items
    assert {one["roleRef"]["name"].rpartition("-")[2] for one in bindings} == {"workloads"}


def test_it_can_be_repeated(cluster: FakeCluster) -> None:
    establish(cluster)
    install()
    before = [cluster.list(kind).items for kind in (NAMESPACE, PRIORITY_CLASS)]

    install()

    after = [cluster.list(kind).items for kind in (NAMESPACE, PRIORITY_CLASS)]
    assert [[o["metadata"]["uid"] for o in kind] for kind in after] == [
        [o["metadata"]["uid"] for o in kind] for kind in before
    ]


@pytest.mark.parametrize(
    "error",
    [
        ClusterUnavailable("connection refused"),
        ClusterForbidden("namespaces is forbidden", status=403),
    ],
)
def test_a_rejection_of_the_cluster_is_a_command_error(
    cluster: FakeCluster, error: ClusterUnavailable | ClusterForbidden
) -> None:
    cluster.fail("apply", NAMESPACE, error)

    with pytest.raises(CommandError, match=str(error)):
        install()


def test_it_reports_a_missing_cluster(settings: Settings) -> None:
    settings.KUBE_MODE = "off"

    with pytest.raises(CommandError, match="KUBE_MODE"):
        install()


@pytest.mark.parametrize("address", ["nats", "10.0.5.20:4222", "10.0.5.1/24"])
def test_an_invalid_address_of_the_queue_is_rejected(cluster: FakeCluster, address: str) -> None:
    with pytest.raises(CommandError, match="--queue-address"):
        install("--queue-address", address)

    assert cluster.writes == []


def test_accounts_are_applied_only_on_request(cluster: FakeCluster) -> None:
    establish(cluster)

    install("--accounts")

    assert set(cluster.names(SERVICE_ACCOUNT)) == {account.name for account in ACCOUNTS}
    assert "gpu-platform-controller" in cluster.names(CLUSTER_ROLE_BINDING)
    assert "ServiceAccount" not in install("--dry-run")
