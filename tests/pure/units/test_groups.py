"""Groups of units: the block of the spec, the pod and the Service of a unit, and the phase."""

from typing import Any

import pytest

from gpuplatform.errors import InvalidSpec
from gpuplatform.kube.kinds import GPU_UNIT
from tests.factories.inventory import POD_SETTINGS
from units.core import manifests
from units.core.groups import GROUP_LABEL, group_columns, group_phase, member_name
from units.core.spec import GPUUnitSpec
from units.core.view import UnitView
from units.requests import UnitGroupCreate

SPEC: dict[str, Any] = {"specName": "g1.1", "image": "example.com/a:1", "gpu": 1}
PLACE = {"name": "team", "rank": 1, "size": 3}


def view(name: str, **spec: Any) -> UnitView:
    metadata = {"name": name, "namespace": "tenant-a", "uid": "u", "generation": 1}
    kind = {"apiVersion": GPU_UNIT.api_version, "kind": GPU_UNIT.kind}
    return UnitView.parse({**kind, "metadata": metadata, "spec": {**SPEC, **spec}})


def unit(**spec: Any) -> UnitView:
    return view("team-1", group=PLACE, **spec)


def environment(of: UnitView) -> dict[str, str]:
    made = manifests.deployment(of, replicas=1, priority="p", settings=POD_SETTINGS)
    [container] = made["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one.get("value", "") for one in container["env"]}


def test_a_unit_of_a_group_knows_its_place_and_the_address_of_rank_0() -> None:
    found = environment(unit())

    assert {key: value for key, value in found.items() if key.startswith("GROUP_")} == {
        "GROUP_NAME": "team",
        "GROUP_RANK": "1",
        "GROUP_SIZE": "3",
        "GROUP_MASTER": "unit-team-0.tenant-a.svc.cluster.local",
    }


def test_a_unit_without_a_group_has_none_of_its_variables_and_can_set_them() -> None:
    single = view("a", template={"envs": [{"name": "GROUP_RANK", "value": "own"}]})

    found = environment(single)

    assert found["GROUP_RANK"] == "own"
    assert "GROUP_SIZE" not in found
    assert not single.has_service


def test_the_hostname_is_the_name_of_the_unit() -> None:
    made = manifests.deployment(unit(), replicas=1, priority="p", settings=POD_SETTINGS)
    template = made["spec"]["template"]

    assert template["spec"]["hostname"] == member_name("team", 1) == "team-1"
    assert template["metadata"]["labels"][GROUP_LABEL] == "team"
    assert made["metadata"]["labels"][GROUP_LABEL] == "team"


@pytest.mark.parametrize(
    ("template", "ports"),
    [
        pytest.param({}, None, id="without ports"),
        pytest.param({"ports": [{"name": "http", "port": 80}]}, [80], id="with a port"),
    ],
)
def test_each_unit_of_a_group_has_a_headless_service(
    template: dict[str, Any], ports: list[int] | None
) -> None:
    one = unit(template=template)
    assert one.has_service

    made = manifests.service(one)["spec"]

    assert made["clusterIP"] == "None"
    assert made["publishNotReadyAddresses"] is True
    found = [one["port"] for one in made["ports"]] if "ports" in made else None
    assert found == ports


def test_a_service_without_a_group_is_not_headless() -> None:
    single = view("a", template={"ports": [{"name": "http", "port": 80}]})

    assert set(manifests.service(single)["spec"]) == {"type", "selector", "ports"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"group": {**PLACE, "rank": 3}}, "group.rank", id="rank not below size"),
        pytest.param({"group": {**PLACE, "rank": -1}}, "group.rank", id="negative rank"),
        pytest.param({"group": {**PLACE, "size": 65}}, "group.size", id="too large"),
        pytest.param({"group": {"name": "team"}}, "group.rank", id="incomplete"),
        pytest.param(
            {"group": PLACE, "template": {"envs": [{"name": "GROUP_NAME", "value": "a"}]}},
            "template.envs[0].name",
            id="variable of groups",
        ),
    ],
)
def test_an_invalid_place_is_rejected(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSpec) as rejected:
        GPUUnitSpec.parse({**SPEC, **changes})

    assert rejected.value.details[0].field == field


def test_the_units_of_a_group_differ_only_in_their_rank() -> None:
    fields = {key: value for key, value in SPEC.items() if key != "gpu"}
    body = UnitGroupCreate.parse({"operationID": "a", "name": "team", "size": 2, "unit": fields})
    stock = GPUUnitSpec.parse({"specName": "g1.1", "gpu": 4, "memory": "8Gi"})

    first, second = (body.spec(rank, stock).normalised() for rank in range(2))

    assert first.pop("group") == {"name": "team", "rank": 0, "size": 2}
    assert second.pop("group") == {"name": "team", "rank": 1, "size": 2}
    assert first == second == {**SPEC, "gpu": 4, "memory": "8Gi"}


@pytest.mark.parametrize(
    ("block", "name", "rank"),
    [
        pytest.param(PLACE, "team", 1, id="valid"),
        pytest.param(None, "", None, id="absent"),
        pytest.param({"name": 7, "rank": 1}, "", None, id="name is a number"),
        pytest.param({"name": "team", "rank": True}, "", None, id="rank is a boolean"),
        pytest.param({"name": "team", "rank": 2**40}, "", None, id="rank too large"),
        pytest.param({"name": "x" * 99, "rank": 0}, "x" * 63, 0, id="name too long"),
    ],
)
def test_columns_of_any_block_fit(block: Any, name: str, rank: int | None) -> None:
    assert group_columns({"group": block}) == {"group_name": name, "group_rank": rank}


@pytest.mark.parametrize(
    ("phases", "phase"),
    [
        (["Pending"] * 3, "Pending"),
        (["Ready"] * 3, "Ready"),
        (["Ready", "Ready", "Progressing"], "Progressing"),
        (["Ready", "Pending", "Pending"], "Progressing"),
        (["Ready", "Failed", "Ready"], "Failed"),
        (["Ready", "Ready"], "Failed"),
        (["Failed", "Terminating"], "Terminating"),
        (["Succeeded"] * 3, "Succeeded"),
        (["Succeeded", "Ready", "Ready"], "Ready"),
        (["Stopped"] * 3, "Stopped"),
        (["Ready", "Stopped", "Ready"], "Failed"),
    ],
)
def test_the_phase_of_a_group_of_three(phases: list[str], phase: str) -> None:
    assert group_phase(phases, 3) == phase
