"""`deploy/` as kubectl builds it: rules for all pods, and no drift from the code."""

import os
import subprocess
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings

from gpuplatform.deployment import installation, isolation, permissions
from gpuplatform.errors import InvalidSpec
from gpuplatform.metrics.server import LIVE_PATH
from gpuplatform.settings.environment import Environment
from gpuplatform.workloads.template import PodTemplate

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPONENT = "app.kubernetes.io/component"


def build(folder: Path) -> list[dict[str, Any]]:
    """Return the objects that kubectl applies."""
    built = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return list(yaml.safe_load_all(built.stdout))


@pytest.fixture(scope="module")
def base() -> list[dict[str, Any]]:
    """An installation without optional components."""
    return build(DEPLOY / "base")


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """An installation with every optional component."""
    folder = tmp_path_factory.mktemp("overlay")
    deploy = os.path.relpath(DEPLOY, folder)  # kustomize rejects absolute paths.
    (folder / "kustomization.yaml").write_text(
        f"resources: [{deploy}/base]\ncomponents: [{deploy}/components/serverless]\n"
    )
    return build(folder)


def of_kind(objects: list[dict[str, Any]], *kinds: str) -> dict[str, dict[str, Any]]:
    """Return the objects of these kinds by their component, or by name without one."""
    return {
        one["metadata"].get("labels", {}).get(COMPONENT, one["metadata"]["name"]): one
        for one in objects
        if one["kind"] in kinds
    }


def pods(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the pod spec of each process."""
    found = of_kind(objects, "Deployment", "Job", "CronJob")
    specs = {name: one["spec"] for name, one in found.items()}
    jobs = {name: spec.get("jobTemplate", {}).get("spec", spec) for name, spec in specs.items()}
    return {name: job["template"]["spec"] for name, job in jobs.items()}


def containers(pod: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every container of a pod."""
    yield from pod.get("initContainers", ())
    yield from pod["containers"]


def test_every_process_is_deployed_under_its_own_account(objects: list[dict[str, Any]]) -> None:
    used = {name: pod["serviceAccountName"] for name, pod in pods(objects).items()}

    assert used.pop("recover") == permissions.CONTROLLER.name
    assert used == {account.process: account.name for account in permissions.ACCOUNTS}


def test_a_token_is_mounted_exactly_where_there_are_rights(objects: list[dict[str, Any]]) -> None:
    mounted = {n for n, pod in pods(objects).items() if pod["automountServiceAccountToken"]}

    with_permissions = {account.process for account in permissions.ACCOUNTS if account.permissions}
    assert mounted == {*with_permissions, "recover"}
    assert not any(
        one["automountServiceAccountToken"] for one in of_kind(objects, "ServiceAccount").values()
    )


def test_no_pod_may_write_or_gain_anything(objects: list[dict[str, Any]]) -> None:
    for name, pod in pods(objects).items():
        assert pod["securityContext"]["runAsNonRoot"], name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for container in containers(pod):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, name


def test_no_template_refers_to_what_the_processes_log_in_with(
    objects: list[dict[str, Any]],
) -> None:
    named = {
        source["secretRef"]["name"]
        for pod in pods(objects).values()
        for container in containers(pod)
        for source in container.get("envFrom", ())
        if "secretRef" in source
    }

    assert named
    for name in named:
        with pytest.raises(InvalidSpec):
            PodTemplate.parse(
                {
                    "envs": [
                        {"name": "A", "valueFrom": {"secretKeyRef": {"name": name, "key": "k"}}}
                    ]
                }
            )


def test_every_container_has_requests_and_a_limit_of_memory(objects: list[dict[str, Any]]) -> None:
    for name, pod in pods(objects).items():
        for container in containers(pod):
            assert set(container["resources"]["requests"]) == {"cpu", "memory"}, name
            assert "memory" in container["resources"]["limits"], name


def test_every_lasting_process_is_probed(objects: list[dict[str, Any]]) -> None:
    deployments = of_kind(objects, "Deployment")
    without = [
        name for name in deployments if "livenessProbe" not in pods(objects)[name]["containers"][0]
    ]

    assert without == []
    assert "readinessProbe" in pods(objects)["web"]["containers"][0]


def test_commands_are_those_of_compose(objects: list[dict[str, Any]]) -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    commands = {name: pod["containers"][0].get("command") for name, pod in pods(objects).items()}

    assert commands.pop("migrate") == ["python", "manage.py", "prepare_database"]
    assert commands.pop("recover") == ["python", "manage.py", "recover"]
    assert commands == {name: services[name].get("command") for name in commands}


def test_probes_use_the_port_of_the_process(objects: list[dict[str, Any]]) -> None:
    for name, pod in pods(objects).items():
        ports = {
            port["name"]: port["containerPort"] for port in pod["containers"][0].get("ports", ())
        }
        if "metrics" in ports:
            assert str(ports["metrics"]) == _settings(objects)["GPUPLATFORM_METRICS_PORT"], name
    for name in set(of_kind(objects, "Deployment")) - {"web"}:
        asked = pods(objects)[name]["containers"][0]["livenessProbe"]["httpGet"]
        assert asked == {"path": LIVE_PATH, "port": "metrics"}


def test_every_process_has_longer_to_end_than_it_takes(objects: list[dict[str, Any]]) -> None:
    drain = Environment.model_fields["gpuplatform_drain_seconds"].default
    grace = {n: pod.get("terminationGracePeriodSeconds", 30) for n, pod in pods(objects).items()}

    assert min(grace.values()) > 2 * drain


def test_what_runs_more_than_once_is_spread_and_kept_in_a_drain(
    objects: list[dict[str, Any]],
) -> None:
    several = {
        n for n, one in of_kind(objects, "Deployment").items() if one["spec"]["replicas"] > 1
    }
    spread = {n for n, pod in pods(objects).items() if pod.get("topologySpreadConstraints")}
    budgets = of_kind(objects, "PodDisruptionBudget").values()
    kept = {one["spec"]["selector"]["matchLabels"][COMPONENT] for one in budgets}

    assert kept == several
    assert several <= spread


def test_manifests_contain_only_existing_settings(objects: list[dict[str, Any]]) -> None:
    known = {name.upper() for name in Environment.model_fields}
    given = set(_settings(objects))
    secret = yaml.safe_load((DEPLOY / "overlay-example" / "secret.example.yaml").read_text())

    assert given <= known
    assert set(secret["stringData"]) <= known
    assert set(secret["stringData"]) == {
        *("DATABASE_URL", "REDIS_URL", "NATS_URL"),
        *("GPUPLATFORM_NATS_SEED", "GPUPLATFORM_SECRET_KEY"),
    }
    assert "GPUPLATFORM_ALLOWED_HOSTS" in given


def _settings(objects: list[dict[str, Any]]) -> dict[str, str]:
    found = [one["data"] for one in objects if one["kind"] == "ConfigMap"]
    assert len(found) == 1
    settings: dict[str, str] = found[0]
    return settings


def test_the_probes_of_web_do_not_wait_for_its_threads(objects: list[dict[str, Any]]) -> None:
    web = pods(objects)["web"]["containers"][0]

    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert web[probe]["httpGet"]["port"] == "metrics"


def test_what_install_cluster_brings_is_here_too(objects: list[dict[str, Any]]) -> None:
    here = {_key(one): one for one in objects}

    wanted = [*installation.manifests("gpu-platform"), *permissions.manifests("gpu-platform")]
    wanted += isolation.policies()

    for _, manifest in wanted:
        found = here[_key(manifest)]
        if manifest["kind"] == "Namespace":
            # In `deploy/` one of these namespaces has pods of the platform and is restricted.
            assert manifest["metadata"]["labels"].items() <= found["metadata"]["labels"].items()
        else:
            assert found == manifest


def _key(manifest: dict[str, Any]) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", ""), metadata["name"]


def test_the_pods_of_the_platform_are_scheduled_before_units(
    objects: list[dict[str, Any]],
) -> None:
    classes = of_kind(objects, "PriorityClass")
    used = {pod.get("priorityClassName") for pod in pods(objects).values()}
    system = classes.pop("gpu-platform-system")

    assert used == {"gpu-platform-system"}
    assert system["value"] > max(one["value"] for one in classes.values())
    assert system["preemptionPolicy"] == "PreemptLowerPriority"


def test_the_base_works_without_a_queue(
    base: list[dict[str, Any]], objects: list[dict[str, Any]]
) -> None:
    optional = {account.process for account in permissions.ACCOUNTS if account.component}

    assert optional == {"activator", "results"}
    assert set(pods(objects)) - set(pods(base)) == optional
    names = {one["metadata"]["name"] for one in base}
    assert not names & {f"{permissions.PREFIX}-{process}" for process in optional}
    assert (_egress_ports(base), _egress_ports(objects) - _egress_ports(base)) == (
        {53, 443, 5432, 6379, 6443},
        {4222},
    )


def test_a_component_changes_no_object_of_the_base(
    base: list[dict[str, Any]], objects: list[dict[str, Any]]
) -> None:
    with_component = {_key(one): one for one in objects}

    assert [one["metadata"]["name"] for one in base if with_component[_key(one)] != one] == []


def _egress_ports(objects: list[dict[str, Any]]) -> set[int]:
    specs = [
        one["spec"]
        for one in objects
        if one["kind"] == "NetworkPolicy" and one["metadata"]["namespace"] == "gpu-platform"
    ]
    rules = [rule for spec in specs for rule in spec.get("egress") or ()]
    return {port["port"] for rule in rules for port in rule.get("ports") or () if "port" in port}


def test_the_image_has_every_app_of_ours() -> None:
    kept = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines()}
    ours = {app.partition(".")[0] for app in settings.INSTALLED_APPS}
    ours = {name for name in ours if (ROOT / name).is_dir()}

    assert ours <= kept
    assert all(name in (ROOT / "Dockerfile").read_text() for name in ours)


def test_every_policy_selects_pods_that_there_are(objects: list[dict[str, Any]]) -> None:
    labels = [
        one["spec"]["template"]["metadata"]["labels"]
        for one in of_kind(objects, "Deployment", "Job").values()
    ]
    for one in objects:
        selector = one["spec"].get("podSelector") if one["kind"] == "NetworkPolicy" else None
        if wanted := (selector or {}).get("matchLabels"):
            assert any(wanted.items() <= each.items() for each in labels), one["metadata"]["name"]


@pytest.mark.parametrize("folder", ["base", "isolation"])
def test_of_the_clusters_own_namespace_names_are_asked_for_and_nothing_else(folder: str) -> None:
    rules = [
        (peer, rule.get("ports"))
        for one in yaml.safe_load_all((DEPLOY / folder / "network.yaml").read_text())
        for rule in one["spec"].get("egress") or ()
        for peer in rule.get("to") or ()
        if "kube-system" in str(peer.get("namespaceSelector"))
    ]

    [(peer, ports)] = rules
    assert peer["podSelector"] == {"matchLabels": {"k8s-app": "kube-dns"}}
    assert {port["port"] for port in ports} == {53}


@pytest.mark.long
def test_every_rule_of_addresses_speaks_of_both_kinds_of_ip() -> None:
    rules = [
        [peer["ipBlock"] for peer in rule["to"] if "ipBlock" in peer]
        for folder in ("base", "isolation")
        for one in build(DEPLOY / folder)
        if one["kind"] == "NetworkPolicy"
        for rule in one["spec"].get("egress") or ()
        if "to" in rule
    ]
    blocks = [[ip_network(block["cidr"]) for block in rule] for rule in rules if rule]

    assert blocks
    assert [{net.version for net in rule} for rule in blocks] == [{4, 6}] * len(blocks)
    for block in (block for rule in rules for block in rule):
        outer = ip_network(block["cidr"])
        for inner in map(ip_network, block.get("except") or ()):
            assert inner.version == outer.version, f"{inner} is no exception of {outer}"
            assert inner.overlaps(outer)


@pytest.mark.long
def test_every_folder_builds() -> None:
    files = {path: yaml.safe_load(path.read_text()) for path in DEPLOY.rglob("kustomization.yaml")}
    # A Component is built as part of a Kustomization.
    folders = sorted(path.parent for path, one in files.items() if one["kind"] == "Kustomization")

    assert DEPLOY / "overlay-example" in folders
    assert [folder.name for folder in folders if not build(folder)] == []


def test_no_secret_is_part_of_an_installation(objects: list[dict[str, Any]]) -> None:
    assert [one for one in objects if one["kind"] == "Secret"] == []
