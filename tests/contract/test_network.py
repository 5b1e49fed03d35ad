"""The network policies of an installation, evaluated: who can connect to whom.

Both ways to install, kustomize and `install_cluster`, apply the same policies to the namespaces of
stock and units. The test evaluates plugins that match pods by `ipBlock` and plugins that do not.
"""

import os
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from pytest_django import Settings

from gpuplatform.deployment.isolation import policies, worker_policy
from tests.contract.network import Endpoint, Manifest, Network
from tests.contract.test_deploy import COMPONENT, DEPLOY, build
from tests.factories.inventory import POD_SETTINGS
from tests.factories.planned_units import stock_resource, unit_resource
from units.core import manifests
from units.core.view import UnitView

NAMESPACES = {
    "servers": {"runtime.lokiwager.io/serves": "queue"},
    "ingress": {"runtime.lokiwager.io/calls": "platform"},
    "portal": {"runtime.lokiwager.io/calls": "units"},
}
BLOCK = {
    "functionID": 7,
    "tenant": "acme",
    "queueURL": "nats://nats.servers:4222",
    "credentialsSecret": "fn-7-queue",
}


def pod_of(unit: Manifest, address: str) -> Endpoint:
    """Return the pod of a unit, with the labels that the platform gives it."""
    made = manifests.deployment(
        UnitView.parse(unit), replicas=1, priority="any", settings=POD_SETTINGS
    )
    labels = made["spec"]["template"]["metadata"]["labels"]
    return Endpoint(address, unit["metadata"]["namespace"], labels)


def process(name: str, address: str) -> Endpoint:
    """Return a pod of the platform."""
    labels = {"app.kubernetes.io/part-of": "gpu-platform", COMPONENT: name}
    return Endpoint(address, "gpu-platform", labels)


PLACES = {
    "worker": pod_of(unit_resource("fn-7-abc", serverless=BLOCK), "10.244.1.10"),
    "unit": pod_of(unit_resource(), "10.244.1.11"),
    "another unit": pod_of(unit_resource("other"), "10.244.2.11"),
    "stock": pod_of(stock_resource(), "10.244.1.12"),
    "web": process("web", "10.244.2.20"),
    "operations": process("operations", "10.244.2.21"),
    "activator": process("activator", "10.244.2.22"),
    "results": process("results", "10.244.2.23"),
    "nats": Endpoint("10.244.2.30", "servers", {"app": "nats"}),
    "postgres": Endpoint("10.244.2.31", "servers", {"app": "postgres"}),
    "valkey": Endpoint("10.244.2.32", "servers", {"app": "valkey"}),
    "another nats": Endpoint("10.244.2.33", "other", {"app": "nats"}),
    "dns": Endpoint("10.244.2.34", "kube-system", {"k8s-app": "kube-dns"}),
    "ingress": Endpoint("10.244.2.35", "ingress"),
    "portal": Endpoint("10.244.2.36", "portal"),
    "another pod": Endpoint("10.244.2.37", "other"),
    "API server": Endpoint("192.168.7.1"),
    "external nats": Endpoint("10.0.5.20"),
    "internet": Endpoint("93.184.216.34"),
    "internet 6": Endpoint("2606:2800:220:1::1"),
    "metadata": Endpoint("169.254.169.254"),
}

TENANTS = [
    ("worker", "nats", 4222, True),
    ("worker", "nats", 8222, False),
    ("worker", "another nats", 4222, False),
    ("worker", "external nats", 4222, False),
    ("worker", "postgres", 5432, False),
    ("worker", "valkey", 6379, False),
    ("worker", "web", 8080, False),
    ("worker", "web", 9090, False),
    ("worker", "API server", 6443, False),
    ("worker", "dns", 53, True),
    ("worker", "internet", 443, True),
    ("worker", "internet 6", 443, True),
    ("worker", "metadata", 80, False),
    ("worker", "unit", 8080, True),
    ("unit", "nats", 4222, False),
    ("unit", "external nats", 4222, False),
    ("unit", "postgres", 5432, False),
    ("unit", "valkey", 6379, False),
    ("unit", "web", 8080, False),
    ("unit", "API server", 6443, False),
    ("unit", "dns", 53, True),
    ("unit", "internet", 443, True),
    ("unit", "metadata", 80, False),
    ("unit", "another unit", 8080, True),
    ("stock", "nats", 4222, False),
    ("stock", "dns", 53, False),
    ("stock", "internet", 443, False),
    ("portal", "unit", 8080, True),
    ("another pod", "unit", 8080, False),
    ("another pod", "stock", 8080, False),
]
PROCESSES = [
    ("activator", "nats", 4222, True),
    ("results", "nats", 4222, True),
    ("operations", "postgres", 5432, True),
    ("web", "API server", 6443, True),
    ("results", "API server", 6443, False),
    ("results", "internet", 443, True),
    ("results", "internet 6", 8443, True),
    ("results", "metadata", 80, False),
    ("results", "another pod", 80, False),
    ("activator", "internet", 80, False),
    ("ingress", "web", 8080, True),
    ("ingress", "operations", 9090, False),
    ("another pod", "web", 8080, False),
]


def of_policies(objects: list[dict[str, Any]]) -> list[Manifest]:
    return [one for one in objects if one["kind"] == "NetworkPolicy"]


def installed(*arguments: str) -> list[Manifest]:
    """Return the policies that `install_cluster` applies."""
    output = StringIO()
    call_command("install_cluster", "--dry-run", *arguments, stdout=output)
    return of_policies(list(yaml.safe_load_all(output.getvalue())))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    """The policies that kustomize applies, with every component."""
    folder = tmp_path_factory.mktemp("overlay")
    deploy = os.path.relpath(DEPLOY, folder)  # kustomize rejects absolute paths.
    (folder / "kustomization.yaml").write_text(
        f"resources: [{deploy}/base]\ncomponents: [{deploy}/components/serverless]\n"
    )
    return of_policies(build(folder))


def can_connect(network: Network, source: str, target: str, port: int) -> bool:
    protocol = "UDP" if port == 53 else "TCP"
    return network.allows(PLACES[source], PLACES[target], port, protocol)


def test_install_cluster_applies_the_policies_of_kustomize(
    built: list[Manifest], settings: Settings
) -> None:
    settings.NATS_URL = "nats://nats.servers:4222"
    ours = {"runtime-stock", "runtime-instance"}

    def named(manifests: list[Manifest]) -> dict[tuple[str, str], Manifest]:
        found = {(o["metadata"]["namespace"], o["metadata"]["name"]): o for o in manifests}
        return {key: one for key, one in found.items() if key[0] in ours}

    assert named(installed()) == named(built)
    assert len(named(built)) == 3


@pytest.mark.parametrize("blocks_match_pods", [True, False], ids=["blocks match pods", "do not"])
@pytest.mark.parametrize(("source", "target", "port", "expected"), TENANTS)
def test_what_pods_of_tenants_can_connect_to(
    built: list[Manifest],
    source: str,
    target: str,
    port: int,
    *,
    expected: bool,
    blocks_match_pods: bool,
) -> None:
    command = [manifest for _, manifest in policies()]
    for found in (built, command):
        network = Network(found, NAMESPACES, blocks_match_pods)
        assert can_connect(network, source, target, port) is expected


@pytest.mark.parametrize(("source", "target", "port", "expected"), PROCESSES)
def test_what_the_processes_can_connect_to(
    built: list[Manifest], source: str, target: str, port: int, *, expected: bool
) -> None:
    assert can_connect(Network(built, NAMESPACES), source, target, port) is expected


def test_without_the_label_the_queue_is_not_reachable(built: list[Manifest]) -> None:
    assert not can_connect(Network(built, {}), "worker", "nats", 4222)


@pytest.mark.parametrize("argument", ["10.0.5.20", "10.0.5.0/24"])
def test_workers_can_connect_to_a_queue_outside_the_cluster(argument: str) -> None:
    network = Network(installed("--queue-address", argument), NAMESPACES)

    assert can_connect(network, "worker", "external nats", 4222)
    assert not can_connect(network, "worker", "external nats", 5432)
    assert not can_connect(network, "unit", "external nats", 4222)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("nats://10.0.5.20:4222", True),
        ("nats://127.0.0.1:4222", False),
        ("nats://nats:4222", False),
        ("", False),
    ],
)
def test_the_address_of_the_queue_is_that_of_the_setting(
    settings: Settings, url: str, *, expected: bool
) -> None:
    settings.NATS_URL = url

    network = Network(installed(), NAMESPACES)

    assert can_connect(network, "worker", "external nats", 4222) is expected


def test_an_overlay_can_add_an_address(tmp_path: Path) -> None:
    deploy = os.path.relpath(DEPLOY, tmp_path)
    operation = {"op": "add", "path": "/spec/egress/0/to/-"}
    value = {"ipBlock": {"cidr": "10.0.5.20/32"}}
    patch = {
        "target": {"kind": "NetworkPolicy", "name": "gpu-platform-workers"},
        "patch": yaml.safe_dump([{**operation, "value": value}]),
    }
    overlay = {"namespace": "team-a", "resources": [f"{deploy}/isolation"], "patches": [patch]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))

    found = {one["metadata"]["name"]: one for one in of_policies(build(tmp_path))}

    assert found["gpu-platform-workers"] == worker_policy("team-a", ["10.0.5.20/32"])


def test_a_pod_that_no_policy_selects_is_open() -> None:
    network = Network([], {})

    assert can_connect(network, "unit", "postgres", 5432)
