"""The repository for contributors and clusters: commands, checks, CRDs, paths."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuplatform.deployment.installation import CRDS

ROOT = Path(__file__).parents[2]


def makefile() -> dict[str, str]:
    """Return each target with its prerequisites."""
    text = (ROOT / "Makefile").read_text()
    return dict(re.findall(r"^([a-z0-9-]+):([^#\n]*)", text, flags=re.MULTILINE))


def definition(kind: str) -> dict[str, Any]:
    [found] = [crd for crd in CRDS if crd["spec"]["names"]["kind"] == kind]
    return found


def properties(kind: str, part: str) -> set[str]:
    [version] = definition(kind)["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"][part]
    return set(schema["properties"])


def test_ci_is_the_checks_and_the_tests() -> None:
    targets = makefile()

    assert targets["ci"].split() == ["check", "test"]
    assert {"run", "test", "format", "lint", "types", "manifests", "swagger"} <= set(targets)
    assert targets["check"].split() == ["lint", "types", "contracts"]
    [steps] = re.findall(r'^STEPS="(.*)"$', (ROOT / ".ci/run").read_text(), flags=re.MULTILINE)
    # The tests come first: their target installs what it uses. The nodes come after the cluster,
    # which builds their binary.
    assert steps.split() == [
        *("test", "check", "fuzz", "image-check", "test-cluster"),
        *("test-image-python", "test-node-core"),
    ]
    assert {*steps.split(), "test-node"} <= set(targets)


def test_every_target_has_a_line_of_help() -> None:
    text = (ROOT / "Makefile").read_text()

    silent = [
        name for name in makefile() if not re.search(rf"^{name}:.*## \w.+\.$", text, re.MULTILINE)
    ]
    assert silent == []


def test_every_target_installs_what_it_uses() -> None:
    text = (ROOT / "Makefile").read_text()
    recipes = re.findall(r"^([a-z0-9-]+):([^#\n]*).*\n((?:\t.*\n)+)", text, re.MULTILINE)

    bare = [
        name
        for name, needs, recipe in recipes
        if "$(PY)" in recipe
        and "$(INSTALL)" not in recipe
        and not {"setup", "lint"} & {*needs.split()}
    ]
    assert bare == []


def test_checks_compare_what_is_generated() -> None:
    text = (ROOT / "Makefile").read_text()
    checks = text[text.index("\ncheck:") : text.index("\nlint:")]

    for command in ("export --check", "docs/openapi.yaml"):
        assert command in checks


def test_hosted_checks_run_on_a_push_to_main() -> None:
    text = (ROOT / ".github" / "workflows" / "checks.yaml").read_text()
    workflow = yaml.safe_load(re.sub(r"^on:", '"on":', text, flags=re.MULTILINE))

    assert workflow["on"]["push"] == {"branches": ["main"]}


@pytest.mark.parametrize(
    ("kind", "subresources"), [("StockPool", {"status", "scale"}), ("GPUUnit", {"status"})]
)
def test_a_definition_is_namespaced_served_and_has_a_status(
    kind: str, subresources: set[str]
) -> None:
    spec = definition(kind)["spec"]
    [version] = spec["versions"]

    assert (spec["group"], spec["scope"]) == ("runtime.lokiwager.io", "Namespaced")
    assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)
    assert set(version["subresources"]) == subresources


def test_a_stock_pool_has_these_fields() -> None:
    spec = {"specName", "image", "memory", "gpu", "replicas", "template"}
    spec |= {"resourceName", "resources", "placement"}
    status = {"available", "allocated", "phase", "cause", "observedGeneration", "lastSyncTime"}
    status |= {"serviceName", "conditions", "replicas", "selector"}

    assert properties("StockPool", "spec") == spec
    assert properties("StockPool", "status") == status


def test_a_gpu_unit_has_these_fields_and_no_provenance_in_its_spec() -> None:
    spec = {"specName", "image", "memory", "gpu", "template", "access", "group"}
    spec |= {"resourceName", "resources", "placement", "priority", "preemptible"}
    status = {"readyReplicas", "phase", "cause", "serviceName", "accessURL", "startSteps"}
    status |= {"exitCode", "finishedAt", "finishedRun"}

    found = properties("GPUUnit", "spec")
    assert spec <= found
    provenance = "source(?!s|name)|stock|operation|hash"
    assert not [name for name in found if re.search(provenance, name, re.IGNORECASE)]
    always = {"conditions", "observedGeneration", "lastSyncTime"}
    assert status | always == properties("GPUUnit", "status")


def test_there_is_one_kind_besides_stock_pools() -> None:
    assert [crd["spec"]["names"]["kind"] for crd in CRDS] == ["StockPool", "GPUUnit"]


def test_samples_have_the_kinds_of_the_definitions() -> None:
    samples = [
        yaml.safe_load(path.read_text())
        for path in sorted((ROOT / "deploy" / "samples").glob("*.yaml"))
        if path.name != "kustomization.yaml"
    ]

    assert {sample["kind"] for sample in samples} == {"StockPool", "GPUUnit"}


def test_the_api_is_reached_by_a_service() -> None:
    objects = list(yaml.safe_load_all((ROOT / "deploy" / "base" / "web.yaml").read_text()))
    [deployment] = [one for one in objects if one["kind"] == "Deployment"]
    [service] = [one for one in objects if one["kind"] == "Service"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]

    assert {"name": "http", "containerPort": 8080} in container["ports"]
    assert service["spec"]["type"] == "ClusterIP"
    assert [port["targetPort"] for port in service["spec"]["ports"]] == ["http"]


@pytest.mark.xdist_group("proof")
def test_a_group_of_tests_is_known_to_xdist(request: pytest.FixtureRequest) -> None:
    is_grouped = bool(request.config.getoption("loadgroup", default=False))

    assert request.node.nodeid.endswith("@proof") is is_grouped
