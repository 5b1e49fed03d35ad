"""The CRD contains the rules that a structural schema allows, and no other."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from gpuplatform.crds.schema import structural
from gpuplatform.deployment.installation import CRDS, file_name
from inventory.core.crd import STOCK_POOL_CRD

FORBIDDEN = {"$ref", "$defs", "title", "examples", "const", "anyOf"}


class Nested(BaseModel):
    word: Literal["only"] = "only"


class Sample(BaseModel):
    nested: Nested | None = None
    above: Annotated[int, Field(gt=0, lt=5)] = 1
    rows: list[Nested] = Field(
        default=[], json_schema_extra={"x-kubernetes-list-map-keys": ["word"]}
    )
    table: dict[str, int] = {}


class Union(BaseModel):
    either: int | str


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every nested schema; property names are not keywords."""
    yield schema
    children = [*schema.get("properties", {}).values()]
    children += [schema[key] for key in ("items", "additionalProperties") if key in schema]
    for child in children:
        yield from nodes(child)


@pytest.fixture
def root() -> dict[str, Any]:
    [version] = STOCK_POOL_CRD["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return found


def test_only_structural_keywords_are_used(root: dict[str, Any]) -> None:
    for node in nodes(root):
        assert not FORBIDDEN & set(node)
        assert "type" in node


def test_schema_has_bounds_enums_required_fields_and_list_keys(root: dict[str, Any]) -> None:
    spec = root["properties"]["spec"]
    template = spec["properties"]["template"]["properties"]

    assert spec["required"] == ["specName", "replicas"]
    assert spec["properties"]["gpu"]["minimum"] == 0
    assert template["ports"]["items"]["properties"]["protocol"]["enum"] == ["TCP", "UDP", "SCTP"]
    assert template["envs"]["x-kubernetes-list-map-keys"] == ["name"]
    assert template["envs"]["x-kubernetes-list-type"] == "map"


def test_grammars_of_quantities_and_images_stay_out(root: dict[str, Any]) -> None:
    spec = root["properties"]["spec"]["properties"]

    assert "pattern" not in spec["memory"]
    assert "pattern" not in spec["image"]


def test_columns_show_what_an_operator_asks_first() -> None:
    [version] = STOCK_POOL_CRD["spec"]["versions"]

    columns = version["additionalPrinterColumns"]
    names = [column["name"] for column in columns if not column.get("priority")]

    assert names == ["Spec", "Desired", "Available", "Phase", "Reason", "Cause", "Age"]
    assert [column["name"] for column in columns if column.get("priority")] == [
        "GPU",
        "Resource",
        "Memory",
        "Image",
        "Message",
    ]


def test_a_pool_can_be_scaled_and_selected() -> None:
    [version] = STOCK_POOL_CRD["spec"]["versions"]
    names = STOCK_POOL_CRD["spec"]["names"]

    assert (names["shortNames"], names["categories"]) == (["spool"], ["gpuplatform"])
    assert version["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    assert [one["jsonPath"] for one in version["selectableFields"]] == [
        ".spec.specName",
        ".status.phase",
        ".status.cause",
    ]


def test_no_list_has_defaults_that_an_apply_would_see_as_changes() -> None:
    [version] = STOCK_POOL_CRD["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]

    ports = spec["template"]["properties"]["ports"]["items"]["properties"]
    assert "default" not in ports["protocol"]


def test_keywords_of_json_schema_are_translated() -> None:
    properties = structural(Sample)["properties"]

    assert properties["nested"]["nullable"] is True
    assert properties["nested"]["properties"]["word"]["enum"] == ["only"]
    assert properties["above"] == {
        "default": 1,
        "type": "integer",
        "minimum": 0,
        "exclusiveMinimum": True,
        "maximum": 5,
        "exclusiveMaximum": True,
    }
    assert properties["table"]["additionalProperties"] == {"type": "integer"}
    assert "default" not in properties["rows"]


def test_a_union_cannot_be_expressed() -> None:
    with pytest.raises(ValueError, match="union"):
        structural(Union)


def test_files_are_named_as_the_generators_of_the_field_do() -> None:
    assert [file_name(crd) for crd in CRDS] == [
        "runtime.lokiwager.io_stockpools.yaml",
        "runtime.lokiwager.io_gpuunits.yaml",
    ]
