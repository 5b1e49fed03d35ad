"""The spec of a GPU unit: Kubernetes accepts each value that the platform accepts."""

from typing import Any

import pytest

from gpuplatform.errors import InvalidSpec
from tests.factories.inventory import HTTP_PORT
from units.core.crd import GPU_UNIT_CRD
from units.core.spec import GPUUnitSpec, GPUUnitStatus, access_error


def raw(**changes: Any) -> dict[str, Any]:
    return {"specName": "g1.1", **changes}


def placed(**changes: Any) -> dict[str, Any]:
    return raw(placement=changes)


def tolerating(**toleration: Any) -> dict[str, Any]:
    return placed(tolerations=[toleration])


def fields_of(value: object) -> list[str]:
    with pytest.raises(InvalidSpec) as caught:
        GPUUnitSpec.parse(value)
    return [fault.field for fault in caught.value.details]


@pytest.mark.parametrize(
    "value",
    [
        raw(),
        raw(image="a", cpu="500m", memory="1Gi", gpu=8, suspend=True),
        raw(access={"primaryPort": "http", "scheme": "https"}),
        raw(resourceName="amd.com/gpu", resources={"nvidia.com/gpu": "1", "rdma/hca": "1k"}),
        raw(gpu=0, resources={"smarter-devices/fuse": "1"}),
        placed(nodeSelector={"nvidia.com/gpu.product": "H100", "zone": ""}),
        tolerating(operator="Exists"),
        tolerating(key="a.b/c", value="x", effect="NoSchedule"),
        tolerating(key="a", operator="Exists", effect="NoExecute", tolerationSeconds=0),
    ],
)
def test_accepted(value: dict[str, Any]) -> None:
    assert GPUUnitSpec.parse(value).spec_name == "g1.1"


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (None, ""),
        ([], ""),
        ({}, "specName"),
        (raw(replicas=1), "replicas"),
        (raw(cpu=4), "cpu"),
        (raw(cpu="0"), "cpu"),
        (raw(cpu="1u"), "cpu"),
        (raw(cpu=None), "cpu"),
        (raw(memory="1"), "memory"),
        (raw(gpu="1"), "gpu"),
        (raw(gpu=1025), "gpu"),
        (raw(resourceName="gpu"), "resourceName"),
        (raw(resourceName=None), "resourceName"),
        (raw(resourceName="a.kubernetes.io/b"), "resourceName"),
        (raw(resources={"cpu": "1"}), "resources.cpu"),
        (raw(resources={"a/b": "1.5"}), "resources['a/b']"),
        (raw(resources={"a/b": 1}), "resources['a/b']"),
        (raw(resources={"nvidia.com/gpu": "1"}), "resources['nvidia.com/gpu']"),
        (raw(resources=None), "resources"),
        (raw(suspend=1), "suspend"),
        (raw(suspend=None), "suspend"),
        (raw(access=None), "access"),
        (raw(access={"primaryPort": "HTTP"}), "access.primaryPort"),
        (raw(access={"primaryPort": ""}), "access.primaryPort"),
        (raw(access={"scheme": "javascript"}), "access.scheme"),
        (raw(access={"scheme": "HTTP"}), "access.scheme"),
        (raw(access={"port": 1}), "access.port"),
        (placed(affinity={}), "placement.affinity"),
        (placed(nodeSelector=[]), "placement.nodeSelector"),
        (placed(nodeSelector={"a": 1}), "placement.nodeSelector.a"),
        (placed(nodeSelector={"a": None}), "placement.nodeSelector.a"),
        (placed(nodeSelector={"a": "-x"}), "placement.nodeSelector.a"),
        (placed(nodeSelector={"a": "x" * 64}), "placement.nodeSelector.a"),
        (placed(nodeSelector={f"k{n}": "" for n in range(51)}), "placement.nodeSelector"),
        (placed(tolerations={}), "placement.tolerations"),
        (tolerating(), "placement.tolerations[0]"),
        (tolerating(key=""), "placement.tolerations[0].key"),
        (tolerating(key="a", operator="Lt"), "placement.tolerations[0].operator"),
        (tolerating(key="a", operator="Exists", value="b"), "placement.tolerations[0]"),
        (tolerating(key="a", value="b c"), "placement.tolerations[0].value"),
        (tolerating(key="a", effect=""), "placement.tolerations[0].effect"),
        (tolerating(key="a", effect="noschedule"), "placement.tolerations[0].effect"),
        (tolerating(key="a", tolerationSeconds=1), "placement.tolerations[0]"),
        (
            tolerating(key="a", effect="NoExecute", tolerationSeconds=-1),
            "placement.tolerations[0].tolerationSeconds",
        ),
    ],
)
def test_rejected_with_the_path_of_the_field(value: object, field: str) -> None:
    assert fields_of(value) == [field]


def test_an_invalid_label_key_is_rejected() -> None:
    [path] = fields_of(placed(nodeSelector={"a/b/c": "x"}))

    assert path.startswith("placement.nodeSelector['a/b/c']")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (raw(cpu="0.5"), raw(cpu="500m")),
        (raw(gpu=0, suspend=False), raw()),
        (raw(template={}, access={}, placement={}), raw()),
        (placed(nodeSelector={}, tolerations=[]), raw()),
        (raw(access={"scheme": "http"}), raw()),
        (placed(nodeSelector={"a": "1", "b": "2"}), placed(nodeSelector={"b": "2", "a": "1"})),
        (tolerating(key="a", operator="Equal", value=""), tolerating(key="a")),
    ],
)
def test_equal_specs_have_one_normal_form(one: object, other: object) -> None:
    assert str(GPUUnitSpec.parse(one).normalised()) == str(GPUUnitSpec.parse(other).normalised())


def test_the_normal_form_is_stable() -> None:
    spec = GPUUnitSpec.parse(
        {
            **placed(nodeSelector={"a": "b"}, tolerations=[{"operator": "Exists"}]),
            "access": {"primaryPort": "http"},
            "template": {"ports": [HTTP_PORT]},
            "suspend": True,
        }
    )

    assert GPUUnitSpec.parse(spec.normalised()) == spec


@pytest.mark.parametrize(
    ("access", "ports", "why"),
    [
        (None, [], None),
        ({"scheme": "https"}, [], None),
        ({"primaryPort": "http"}, ["http", "web"], None),
        ({"primaryPort": "grpc"}, ["http", "web"], "http, web"),
        ({"primaryPort": "http"}, [], "no ports"),
    ],
)
def test_the_primary_port_is_one_of_the_templates(
    access: dict[str, str] | None, ports: list[str], why: str | None
) -> None:
    template = {"ports": [{"name": name, "port": n} for n, name in enumerate(ports, 1)]}
    spec = GPUUnitSpec.parse(raw(template=template, **({"access": access} if access else {})))

    fault = access_error(spec.access, spec.template)

    assert (fault is None) == (why is None)
    if fault is not None:
        assert fault.field == "access.primaryPort"
        assert str(why) in fault.message


def test_the_crd_has_the_columns_of_the_contract_and_a_reason() -> None:
    [version] = GPU_UNIT_CRD["spec"]["versions"]

    columns = version["additionalPrinterColumns"]
    names = [column["name"] for column in columns if not column.get("priority")]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    assert names == ["Spec", "Phase", "Access", "Reason", "Cause", "Age"]
    assert properties["spec"]["required"] == ["specName"]
    selector = properties["spec"]["properties"]["placement"]["properties"]["nodeSelector"]
    assert selector["additionalProperties"]["maxLength"] == 63
    assert set(properties["spec"]["properties"]) == {
        declared.alias or name for name, declared in GPUUnitSpec.model_fields.items()
    }


def test_a_status_is_written_in_camel_case() -> None:
    status = GPUUnitStatus.parse({"readyReplicas": 1, "accessURL": "http://a:1"})

    assert status.normalised() == {"readyReplicas": 1, "accessURL": "http://a:1"}
