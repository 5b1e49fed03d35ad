"""Bodies of the stock pool routes: fields beyond the spec, and the request hash."""

from typing import Any

import pytest

from gpuplatform.api.examples import request_example
from gpuplatform.errors import InvalidSpec
from gpuplatform.formats.model import SpecModel
from inventory.core.names import object_name
from inventory.core.spec import StockPoolSpec
from inventory.requests.pools import StockPoolCreate, StockPoolPatch

CREATE: dict[str, Any] = {"operationID": "op-1", "specName": "g1.1", "replicas": 2}


def fields_of(model: type[SpecModel], value: object) -> list[str]:
    with pytest.raises(InvalidSpec) as caught:
        model.parse(value)
    return [one.field for one in caught.value.details]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"operationID": ""}, "operationID"),
        ({"operationID": "a b"}, "operationID"),
        ({"operationID": "x" * 129}, "operationID"),
        ({"operationID": ".."}, "operationID"),
        ({"operationID": 1}, "operationID"),
        ({"operationID": None}, "operationID"),
        ({"name": ""}, "name"),
        ({"name": 1}, "name"),
        ({"name": None}, "name"),
        ({"name": "Pool"}, "name"),
        ({"name": "a.b"}, "name"),
        ({"name": "a" * 59}, "name"),
        ({"name": "a\n"}, "name"),
        ({"namespace": "a.b"}, "namespace"),
        ({"namespace": "x" * 64}, "namespace"),
        ({"namespace": ""}, "namespace"),
        ({"nmae": "a"}, "nmae"),
    ],
)
def test_a_create_is_rejected_with_the_path(change: dict[str, Any], field: str) -> None:
    assert fields_of(StockPoolCreate, CREATE | change) == [field]


def test_the_operation_id_is_no_part_of_the_payload() -> None:
    one = StockPoolCreate.parse(CREATE | {"namespace": "runtime-pools", "memory": "16Gi"})
    other = StockPoolCreate.parse(CREATE | {"operationID": "op-2", "memory": "16384Mi"})

    assert (
        one.payload() == other.payload() == {"specName": "g1.1", "replicas": 2, "memory": "16Gi"}
    )


def test_the_spec_of_a_create_has_only_spec_fields() -> None:
    body = StockPoolCreate.parse(CREATE | {"name": "a", "namespace": "b", "template": {}})

    assert body.spec() == StockPoolSpec.parse({"specName": "g1.1", "replicas": 2})


def test_a_pool_without_a_name_gets_the_same_one_at_each_attempt() -> None:
    body = StockPoolCreate.parse(CREATE)

    assert body.pool_name(tenant="t") == body.pool_name(tenant="t")
    assert body.pool_name(tenant="t") != body.pool_name(tenant="u")
    assert StockPoolCreate.parse(CREATE | {"name": "own"}).pool_name(tenant="t") == "own"


@pytest.mark.parametrize("length", [1, 57, 58])
def test_derived_names_fit_a_label(length: int) -> None:
    name = StockPoolCreate.parse(CREATE | {"name": "a" * length}).pool_name(tenant="t")

    assert len(object_name(name)) <= 63
    assert object_name(name) == f"pool-{name}"


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"operationID": "a"}, ""),
        ({"operationID": "a", "replicas": None}, "replicas"),
        ({"operationID": "a", "template": None}, "template"),
        ({"operationID": "a", "image": None}, "image"),
        ({"operationID": "a", "memory": "1Gi"}, "memory"),
        ({"operationID": "a", "specName": "g"}, "specName"),
        ({"replicas": 1}, "operationID"),
    ],
)
def test_a_patch_is_rejected_with_the_path(value: dict[str, Any], field: str) -> None:
    assert field in fields_of(StockPoolPatch, value)


def test_a_patch_replaces_what_it_gives_and_keeps_the_rest() -> None:
    spec = StockPoolSpec.parse(
        {
            "specName": "g",
            "replicas": 1,
            "image": "a",
            "template": {"args": ["x"], "command": ["c"]},
        }
    )

    changed = StockPoolPatch.parse(
        {"operationID": "a", "replicas": 0, "template": {"args": ["y"]}}
    ).applied_to(spec.normalised())

    assert changed.normalised() == {
        "specName": "g",
        "replicas": 0,
        "image": "a",
        "template": {"args": ["y"]},
    }


def test_an_empty_template_in_a_patch_removes_the_template() -> None:
    spec = StockPoolSpec.parse({"specName": "g", "replicas": 1, "template": {"args": ["x"]}})
    patch = StockPoolPatch.parse({"operationID": "a", "template": {}})

    assert patch.payload() == {"template": {}}
    assert "template" not in patch.applied_to(spec.normalised()).normalised()


@pytest.mark.parametrize("model", [StockPoolCreate, StockPoolPatch])
def test_the_request_example_a_body_is_valid(model: type[SpecModel]) -> None:
    assert model.parse(request_example(model)).normalised()
