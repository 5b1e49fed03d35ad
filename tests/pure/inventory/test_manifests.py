"""The objects of a pool, reviewed as data in tests/golden/inventory."""

from typing import Any

import pytest
import yaml

from inventory.core import manifests
from inventory.core.spec import StockPoolSpec
from inventory.core.view import PoolView
from tests.conftest import GoldenFiles
from tests.factories.inventory import POD_SETTINGS, pool_resource

MODEL = {"name": "MODEL", "value": "llama"}
TOKEN = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}
FULL = {
    "image": "registry.example.com/team/trainer:1.4",
    "memory": "16Gi",
    "gpu": 2,
    "template": {
        "command": ["python", "-m", "trainer"],
        "args": ["--port", "8080"],
        "envs": [{"name": "MODEL", "value": "llama"}, {"name": "EMPTY"}],
        "ports": [{"name": "http", "port": 8080}, {"name": "dns", "port": 53, "protocol": "UDP"}],
    },
}


def text(manifest: dict[str, Any]) -> str:
    return yaml.safe_dump(manifest, sort_keys=False)


def deployment(**spec: Any) -> dict[str, Any]:
    pool = pool_resource(**spec)
    return manifests.deployment(PoolView.parse(pool), POD_SETTINGS)


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("reservation", {"gpu": 1}),
        ("workload", FULL),
        ("smallest", {"replicas": 0}),
        ("secret", {"template": {"command": ["serve"], "envs": [MODEL, TOKEN]}}),
    ],
)
def test_the_deployment_equals_its_golden_file(
    golden: GoldenFiles, name: str, spec: dict[str, Any]
) -> None:
    golden(f"inventory/deployment-{name}.yaml").check(text(deployment(**spec)))


def test_the_service_equals_its_golden_file(golden: GoldenFiles) -> None:
    pool = PoolView.parse(pool_resource(template=FULL["template"]))

    golden("inventory/service.yaml").check(text(manifests.service(pool)))


def test_selector_and_name_do_not_depend_on_the_spec() -> None:
    """The selector of a Deployment is immutable."""
    found = deployment(**FULL)

    assert found["metadata"]["name"] == "pool-h100"
    assert found["spec"]["selector"] == {"matchLabels": {"runtime.lokiwager.io/pool": "h100"}}


def test_a_spec_cannot_change_the_security_context() -> None:
    pod = deployment(**FULL)["spec"]["template"]["spec"]

    assert pod["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName", "nodeName"} & set(pod)
    [container] = pod["containers"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False}


def test_requests_equal_limits_except_of_storage() -> None:
    [container] = deployment(**FULL)["spec"]["template"]["spec"]["containers"]
    size = {"memory": "16Gi", "nvidia.com/gpu": "2"}

    assert container["resources"]["requests"] == {**size, "ephemeral-storage": "0"}
    assert container["resources"]["limits"] == {**size, "ephemeral-storage": "500Gi"}


def test_the_pods_have_the_annotations_of_the_template() -> None:
    found = deployment(template={"command": ["serve"], "annotations": {"b": "2", "a": "1"}})

    assert found["spec"]["template"]["metadata"]["annotations"] == {"a": "1", "b": "2"}
    assert "annotations" not in deployment(**FULL)["spec"]["template"]["metadata"]


def test_equal_specs_and_scaling_have_one_hash() -> None:
    one = StockPoolSpec.parse({"specName": "g", "replicas": 1, "memory": "16Gi"})
    other = StockPoolSpec.parse(
        {"specName": "g", "replicas": 9, "memory": "16384Mi", "template": {}}
    )

    assert manifests.spec_hash(one) == manifests.spec_hash(other)


def test_defaults_have_the_hash_of_absent_fields() -> None:
    """Otherwise the definition of a release, which sets the defaults, would restart the pods."""
    plain: dict[str, Any] = {"specName": "g", "replicas": 1}
    defaults = {"resourceName": "nvidia.com/gpu", "resources": {}, "placement": {}}

    hashes = {
        manifests.spec_hash(StockPoolSpec.parse({**plain, **fields})) for fields in ({}, defaults)
    }

    assert len(hashes) == 1


def test_a_pool_has_the_resources_and_the_placement_of_its_spec() -> None:
    placement = {
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    }

    pod = deployment(
        gpu=1, resourceName="amd.com/gpu", resources={"rdma/hca": "2"}, placement=placement
    )["spec"]["template"]["spec"]

    assert {name: pod[name] for name in placement} == placement
    limits = pod["containers"][0]["resources"]["limits"]
    assert {name: limits.get(name) for name in ("amd.com/gpu", "rdma/hca", "nvidia.com/gpu")} == {
        "amd.com/gpu": "1",
        "rdma/hca": "2",
        "nvidia.com/gpu": None,
    }


def test_another_spec_changes_the_hash() -> None:
    specs: list[dict[str, Any]] = [
        {},
        {"gpu": 1},
        {"image": "a"},
        {"memory": "1Gi"},
        {"template": {"args": ["a"]}},
        {"resourceName": "amd.com/gpu"},
        {"resources": {"rdma/hca": "1"}},
        {"placement": {"nodeSelector": {"zone": "a"}}},
    ]

    hashes = {
        manifests.spec_hash(StockPoolSpec.parse({"specName": "g", "replicas": 1, **spec}))
        for spec in specs
    }

    assert len(hashes) == len(specs)
