"""The objects of a unit, reviewed as data in tests/golden/units."""

from typing import Any

import pytest
import yaml

from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.pods import (
    STOCK_PRIORITY_CLASS,
    UNIT_PRIORITY_CLASS,
)
from gpuplatform.workloads.resources import GPU_RESOURCE
from tests.conftest import GoldenFiles
from tests.factories.inventory import POD_SETTINGS
from tests.factories.planned_units import PORTS, stock_resource, unit_resource
from units.core import manifests
from units.core.names import PREFERRED_NODE_ANNOTATION
from units.core.spec import GPUUnitSpec
from units.core.view import UnitView
from units.phases import UnitRole, role_of

FULL: dict[str, Any] = {
    "image": "registry.example.com/team/trainer:1.4",
    "cpu": "8",
    "memory": "64Gi",
    "gpu": 2,
    "placement": {
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "dedicated", "value": "runtime"},
        ],
    },
    "template": {
        "command": ["python", "-m", "trainer"],
        "args": ["--port", "8080"],
        "envs": [{"name": "MODEL", "value": "llama"}, {"name": "EMPTY"}],
        "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "http", "port": 8080}],
    },
    "access": {"primaryPort": "http"},
}


TWO_PORTS = {"ports": [{"name": "ssh", "port": 22}, {"name": "http", "port": 8000}]}


def text(manifest: Manifest) -> str:
    return yaml.safe_dump(manifest, sort_keys=False)


def deployment(unit: Manifest, *, replicas: int = 1) -> Manifest:
    is_stock = role_of(unit["metadata"]["namespace"]) == UnitRole.STOCK
    priority = STOCK_PRIORITY_CLASS if is_stock else UNIT_PRIORITY_CLASS
    return manifests.deployment(
        UnitView.parse(unit), replicas=replicas, priority=priority, settings=POD_SETTINGS
    )


def container(unit: Manifest) -> Manifest:
    [found] = deployment(unit)["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("stock", stock_resource(cpu="8", memory="64Gi")),
        ("active", unit_resource(**FULL)),
        ("smallest", unit_resource(gpu=0, template={})),
    ],
)
def test_the_deployment_equals_its_golden_file(
    golden: GoldenFiles, name: str, unit: Manifest
) -> None:
    golden(f"units/deployment-{name}.yaml").check(text(deployment(unit)))


def test_the_service_equals_its_golden_file(golden: GoldenFiles) -> None:
    unit = unit_resource(**FULL)

    made = manifests.service(UnitView.parse(unit))

    golden("units/service.yaml").check(text(made))


def test_the_resource_equals_its_golden_file(golden: GoldenFiles) -> None:
    spec = GPUUnitSpec.parse({"specName": "g1.1", **FULL})
    annotations = {"runtime.lokiwager.io/operation-id": "op-1"}

    made = manifests.resource("runtime-instance", "trainer", spec, annotations)

    golden("units/resource.yaml").check(text(made))


def test_variables_of_the_platform_precede_those_of_the_user() -> None:
    names = [variable["name"] for variable in container(unit_resource(**FULL))["env"]]

    assert names == ["SPEC_NAME", "UNIT_NAME", "GPU_COUNT", "MEMORY_LIMIT", "MODEL", "EMPTY"]


@pytest.mark.parametrize("resource", [GPU_RESOURCE, "nvidia.com/mig-1g.10gb", "amd.com/gpu"])
@pytest.mark.parametrize(("gpu", "devices"), [(0, "void"), (1, None)])
def test_a_unit_without_gpus_sees_no_gpu(gpu: int, devices: str | None, resource: str) -> None:
    unit = unit_resource(gpu=gpu, resourceName=resource)

    found = {one["name"]: one.get("value") for one in container(unit)["env"]}

    assert found.get("NVIDIA_VISIBLE_DEVICES") == devices


def test_the_selector_is_only_the_label_of_the_unit() -> None:
    found = deployment(unit_resource(**FULL))

    assert found["metadata"]["name"] == "unit-trainer"
    assert found["spec"]["selector"] == {"matchLabels": {"runtime.lokiwager.io/unit": "trainer"}}


def test_requests_equal_limits_except_of_storage() -> None:
    resources = container(unit_resource(**FULL))["resources"]
    size = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "2"}

    assert resources["requests"] == {**size, "ephemeral-storage": "0"}
    assert resources["limits"] == {**size, "ephemeral-storage": "500Gi"}


def test_a_unit_requests_the_resources_of_its_spec() -> None:
    further = {"rdma/hca": "1", "nvidia.com/gpumem": "4000"}
    unit = unit_resource(gpu=2, resourceName="nvidia.com/mig-1g.10gb", resources=further)

    found = container(unit)["resources"]

    # The API server stores the decimal form.
    size = {"rdma/hca": "1", "nvidia.com/gpumem": "4k", "nvidia.com/mig-1g.10gb": "2"}
    assert found["requests"].items() >= size.items() <= found["limits"].items()
    assert GPU_RESOURCE not in found["limits"]


def test_a_spec_cannot_change_the_security_context() -> None:
    pod = deployment(unit_resource(**FULL))["spec"]["template"]["spec"]

    assert pod["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName", "nodeName"} & set(pod)
    [found] = pod["containers"]
    assert found["securityContext"] == {"allowPrivilegeEscalation": False}


def test_stock_holds_its_gpu_with_the_reservation_image() -> None:
    found = container(stock_resource())

    assert found["image"] == POD_SETTINGS.reservation_image
    assert found["command"][0] == "sh"


def test_an_image_without_a_command_runs_its_entry_point() -> None:
    found = container(unit_resource(template=PORTS))

    assert found["image"] == "app:1"
    assert "command" not in found


@pytest.mark.parametrize(
    ("unit", "port"),
    [
        (unit_resource(**FULL), 8080),
        (unit_resource(template=TWO_PORTS), 22),
        (unit_resource(template=TWO_PORTS, access={"primaryPort": "http"}), 8000),
        (unit_resource(template=FULL["template"], access={"primaryPort": "dns"}), 8080),
        (unit_resource(template={"ports": [{"name": "d", "port": 1, "protocol": "UDP"}]}), None),
        (unit_resource(template={}), None),
        (stock_resource(template=PORTS), None),
    ],
    ids=[
        *("primary port", "first port", "second port", "primary port over UDP"),
        *("none over TCP", "no port", "stock"),
    ],
)
def test_an_active_unit_has_a_readiness_probe_on_its_primary_port(
    unit: Manifest, port: int | None
) -> None:
    probe = container(unit).get("readinessProbe")

    assert (probe["tcpSocket"]["port"] if probe else None) == port


def test_the_access_url_is_inside_the_cluster() -> None:
    unit = unit_resource(**FULL)
    bare = unit_resource(template={})

    assert manifests.access_url(UnitView.parse(unit)) == (
        "http://unit-trainer.runtime-instance.svc.cluster.local:8080"
    )
    assert manifests.access_url(UnitView.parse(bare)) is None


def test_defaults_have_the_hash_of_absent_fields() -> None:
    """Otherwise the definition of a release, which sets the defaults, would restart the pods."""
    defaults = {"resourceName": "nvidia.com/gpu", "resources": {}, "placement": {}}
    one = GPUUnitSpec.parse({"specName": "g", "gpu": 1})
    same = GPUUnitSpec.parse({"specName": "g", "gpu": 1, **defaults})

    assert manifests.spec_hash(one) == manifests.spec_hash(same)


def test_fields_outside_the_pod_do_not_change_the_hash() -> None:
    one = GPUUnitSpec.parse({"specName": "g", "template": PORTS})
    same = GPUUnitSpec.parse(
        {"specName": "g", "template": PORTS, "suspend": True, "access": {"scheme": "https"}}
    )

    assert manifests.spec_hash(one) == manifests.spec_hash(same)


@pytest.mark.parametrize(
    "change",
    [
        {"specName": "h"},
        {"image": "b"},
        {"cpu": "1"},
        {"memory": "1Gi"},
        {"gpu": 1},
        {"resourceName": "amd.com/gpu"},
        {"resources": {"rdma/hca": "1"}},
        {"placement": {"nodeSelector": {"a": "b"}}},
        {"template": {"args": ["a"]}},
    ],
)
def test_fields_of_the_pod_change_the_hash(change: dict[str, Any]) -> None:
    one = GPUUnitSpec.parse({"specName": "g"})
    other = GPUUnitSpec.parse({"specName": "g", **change})

    assert manifests.spec_hash(one) != manifests.spec_hash(other)


def test_a_unit_prefers_the_node_that_has_its_image() -> None:
    unit = unit_resource()
    unit["metadata"]["annotations"] = {PREFERRED_NODE_ANNOTATION: "gpu-node-1"}

    affinity = deployment(unit)["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]

    [term] = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["preference"]["matchFields"][0]["values"] == ["gpu-node-1"]
    assert set(affinity) == {"preferredDuringSchedulingIgnoredDuringExecution"}


@pytest.mark.parametrize("name", ["", "A", "a b", "x" * 300, 7], ids=str)
def test_an_invalid_preferred_node_is_ignored(name: Any) -> None:
    unit = unit_resource()
    unit["metadata"]["annotations"] = {PREFERRED_NODE_ANNOTATION: name}

    assert "affinity" not in deployment(unit)["spec"]["template"]["spec"]
