"""Bodies of the routes of units and stock: fields beyond the spec, and the request hash."""

from typing import Any

import pytest

from gpuplatform.api.examples import request_example
from gpuplatform.errors import InvalidSpec
from gpuplatform.formats.model import SpecModel
from tests.factories.inventory import HTTP_PORT
from units.core.spec import GPUUnitSpec
from units.requests import GpuUnitCreate, GpuUnitUpdate, StockSeed, UnitAction

CREATE: dict[str, Any] = {"operationID": "op-1", "name": "a", "specName": "g1.1", "image": "app"}
SEED: dict[str, Any] = {"operationID": "op-1", "specName": "g1.1", "replicas": 2}
PORTS = {"ports": [HTTP_PORT, {"name": "web", "port": 81}]}


def fields_of(model: type[SpecModel], value: object) -> list[str]:
    with pytest.raises(InvalidSpec) as caught:
        model.parse(value)
    return [one.field for one in caught.value.details]


@pytest.mark.parametrize("missing", sorted(CREATE))
def test_a_create_requires_these_fields(missing: str) -> None:
    body = {key: value for key, value in CREATE.items() if key != missing}

    assert fields_of(GpuUnitCreate, body) == [missing]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "A"}, "name"),
        ({"name": "a" * 59}, "name"),
        ({"name": "a.b"}, "name"),
        ({"image": ""}, "image"),
        ({"memory": "1Gi"}, "memory"),
        ({"gpu": 1}, "gpu"),
        ({"cpu": "1"}, "cpu"),
        ({"placement": {}}, "placement"),
        ({"resourceName": "amd.com/gpu"}, "resourceName"),
        ({"resources": {"a/b": "1"}}, "resources"),
        ({"suspend": False}, "suspend"),
        ({"stockName": "A"}, "stockName"),
        ({"stockNamespace": "elsewhere"}, "stockNamespace"),
        ({"namespace": "A"}, "namespace"),
        ({"namespace": None}, "namespace"),
        ({"template": None}, "template"),
        ({"access": {"primaryPort": "http"}}, "access.primaryPort"),
        ({"access": {"primaryPort": "x"}, "template": PORTS}, "access.primaryPort"),
    ],
)
def test_a_create_is_rejected_with_the_path(change: dict[str, Any], field: str) -> None:
    assert fields_of(GpuUnitCreate, CREATE | change) == [field]


@pytest.mark.parametrize(
    "implied",
    [
        {"namespace": "runtime-instance"},
        {"stockNamespace": "runtime-stock"},
        {"access": {"scheme": "http"}},
        {"access": {}},
    ],
)
def test_defaults_are_not_part_of_the_payload(implied: dict[str, Any]) -> None:
    plain = CREATE | {"template": PORTS}
    one = GpuUnitCreate.parse(plain)
    other = GpuUnitCreate.parse(plain | implied | {"operationID": "op-2"})

    assert one.payload() == other.payload()
    assert set(one.payload()) == {"name", "specName", "image", "template"}


@pytest.mark.parametrize(
    "change",
    [{"name": "b"}, {"image": "b"}, {"stockName": "s"}, {"access": {"primaryPort": "web"}}],
)
def test_another_request_has_another_payload(change: dict[str, Any]) -> None:
    plain = CREATE | {"template": PORTS}

    one, other = GpuUnitCreate.parse(plain), GpuUnitCreate.parse(plain | change)

    assert one.payload() != other.payload()


def test_a_unit_has_the_size_of_its_stock_and_the_requested_fields() -> None:
    stock = GPUUnitSpec.parse(
        {
            "specName": "g1.1",
            "cpu": "4",
            "memory": "16Gi",
            "gpu": 1,
            "resourceName": "nvidia.com/mig-1g.10gb",
            "resources": {"rdma/hca": "1"},
            "placement": {"nodeSelector": {"zone": "a"}},
            "template": {"args": ["of the stock"]},
            "suspend": True,
        }
    )
    asked = GpuUnitCreate.parse(CREATE | {"template": PORTS, "access": {"scheme": "https"}})

    assert asked.spec(stock).normalised() == {
        "specName": "g1.1",
        "image": "app",
        "cpu": "4",
        "memory": "16Gi",
        "gpu": 1,
        "resourceName": "nvidia.com/mig-1g.10gb",
        "resources": {"rdma/hca": "1"},
        "placement": {"nodeSelector": {"zone": "a"}},
        "template": {"ports": [{"name": "http", "port": 8080}, {"name": "web", "port": 81}]},
        "access": {"scheme": "https"},
    }


def test_only_the_namespace_that_applies_may_be_sent() -> None:
    asked = GpuUnitCreate.parse(CREATE | {"namespace": "other"})

    GpuUnitCreate.parse(CREATE).check_namespace("runtime-instance")
    asked.check_namespace("other")
    with pytest.raises(InvalidSpec) as caught:
        asked.check_namespace("runtime-instance")
    assert [fault.field for fault in caught.value.details] == ["namespace"]


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"operationID": "a"}, ""),
        ({"image": "a"}, "operationID"),
        ({"operationID": "a", "image": None}, "image"),
        ({"operationID": "a", "template": None}, "template"),
        ({"operationID": "a", "access": None}, "access"),
        ({"operationID": "a", "image": "a", "gpu": 1}, "gpu"),
        ({"operationID": "a", "image": "a", "name": "b"}, "name"),
    ],
)
def test_an_update_is_rejected_with_the_path(value: dict[str, Any], field: str) -> None:
    assert fields_of(GpuUnitUpdate, value) == [field]


def test_a_given_block_replaces_and_an_omitted_one_stays() -> None:
    spec = GPUUnitSpec.parse(
        {
            "specName": "g",
            "gpu": 1,
            "image": "a",
            "template": PORTS,
            "access": {"primaryPort": "web"},
        }
    )

    image = GpuUnitUpdate.parse({"operationID": "a", "image": "b"}).applied_to(spec.normalised())
    access = GpuUnitUpdate.parse({"operationID": "a", "access": {}}).applied_to(spec.normalised())

    assert image.normalised() == spec.normalised() | {"image": "b"}
    assert "access" not in access.normalised()
    assert access.template == spec.template


def test_an_explicit_primary_port_stays_when_the_ports_change() -> None:
    stock = GPUUnitSpec.parse({"specName": "g"})
    body = GpuUnitCreate.parse({**CREATE, "template": PORTS, "access": {"primaryPort": "http"}})
    ports = {"ports": [{"name": "admin", "port": 9000}, *PORTS["ports"]]}

    changed = GpuUnitUpdate.parse({"operationID": "op", "template": ports})

    port = changed.applied_to(body.spec(stock).normalised()).primary_port
    assert port is not None
    assert port.name == "http"


def test_a_template_without_the_primary_port_is_rejected() -> None:
    spec = GPUUnitSpec.parse(
        {"specName": "g", "template": PORTS, "access": {"primaryPort": "web"}}
    )
    asked = GpuUnitUpdate.parse({"operationID": "a", "template": {"ports": [HTTP_PORT]}})

    with pytest.raises(InvalidSpec) as caught:
        asked.applied_to(spec.normalised())

    assert [fault.field for fault in caught.value.details] == ["access.primaryPort"]


def test_an_empty_block_removes_the_block() -> None:
    asked = GpuUnitUpdate.parse({"operationID": "a", "template": {}, "access": {}})
    spec = GPUUnitSpec.parse({"specName": "g", "template": PORTS})

    assert asked.payload() == {"template": {}, "access": {}}
    assert asked.applied_to(spec.normalised()).normalised() == {"specName": "g"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"replicas": 0}, "replicas"),
        ({"replicas": -1}, "replicas"),
        ({"replicas": 10_001}, "replicas"),
        ({"replicas": "2"}, "replicas"),
        ({"memory": "lots"}, "memory"),
        ({"cpu": "lots"}, "cpu"),
        ({"gpu": -1}, "gpu"),
        ({"image": "a"}, "image"),
        ({"placement": {}}, "placement"),
        ({"specName": "A100 80GB"}, "specName"),
    ],
)
def test_a_seed_is_rejected_with_the_path(change: dict[str, Any], field: str) -> None:
    assert fields_of(StockSeed, SEED | change) == [field]


def test_a_seed_distinguishes_an_omitted_number_of_gpus() -> None:
    """`None` selects the number of the catalogue; 0 is a number, which can conflict with it."""
    assert StockSeed.parse(SEED).gpu is None
    assert StockSeed.parse(SEED | {"gpu": 0}).gpu == 0


def test_equal_seeds_have_one_payload() -> None:
    one, other = (
        StockSeed.parse(SEED | {"operationID": i, "memory": m, "cpu": c})
        for i, m, c in (("a", "16Gi", "0.5"), ("b", "16384Mi", "500m"))
    )

    assert one.payload() == other.payload()
    assert "operationID" not in one.payload()


def test_an_action_has_an_operation_id_and_nothing_else() -> None:
    assert UnitAction.parse({"operationID": "a"}).payload() == {}
    assert fields_of(UnitAction, {}) == ["operationID"]
    assert fields_of(UnitAction, {"operationID": "a", "force": True}) == ["force"]


@pytest.mark.parametrize("model", [GpuUnitCreate, GpuUnitUpdate, StockSeed, UnitAction])
def test_the_request_example_a_body_is_valid(model: type[SpecModel]) -> None:
    assert model.parse(request_example(model)).normalised()
