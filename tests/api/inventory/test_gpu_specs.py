"""The catalogue's routes: entries are there at once, changes touch nothing that runs."""

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from gpuplatform.operations import driver
from gpuplatform.operations.models import Operation
from inventory.models import GpuSpec
from tests.factories.unit_rows import spec_row
from tests.fakes.api import JOBS, SPECS, Api
from tests.fakes.cluster import FakeCluster

pytestmark = pytest.mark.django_db

WHOLE: dict[str, Any] = {
    "operationID": "enter",
    "name": "h100-1g",
    "description": "One H100",
    "cpu": "8000m",
    "memory": "65536Mi",
    "gpu": 1,
    "product": "NVIDIA-H100-80GB-HBM3",
    "placement": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]},
    "warmTarget": 2,
    "topUpPaused": True,
    "restockOnDelete": True,
    "mayPreempt": False,
    "enabled": False,
}


def test_a_created_spec_can_be_read_immediately_in_canonical_form(
    api: Api, cluster: FakeCluster
) -> None:
    answer = api.post(SPECS, WHOLE)

    assert (answer.status, answer.data["kind"]) == (202, "gpuspec.create")
    assert answer.data["object"]["href"] == f"{SPECS}/h100-1g"
    found = api.get(f"{SPECS}/h100-1g").data
    assert (found["cpu"], found["memory"]) == ("8", "64Gi")
    given = {k: v for k, v in WHOLE.items() if k not in {"operationID", "cpu", "memory"}}
    assert {key: found[key] for key in given} == given
    assert set(found) - set(WHOLE) == {"createdAt", "updatedAt"}


def test_omitted_fields_have_their_defaults(api: Api, cluster: FakeCluster) -> None:
    api.post(SPECS, {"operationID": "enter", "name": "cpu"})

    found = api.get(f"{SPECS}/cpu").data

    assert (found["gpu"], found["warmTarget"], found["enabled"]) == (0, 0, True)
    assert (found["mayPreempt"], found["cpu"], found["placement"]) == (True, None, None)


def test_the_operation_of_a_spec_ends_without_the_cluster(api: Api, cluster: FakeCluster) -> None:
    api.post(SPECS, WHOLE)

    driver.run(Operation.objects.get().id)

    assert api.get(f"{JOBS}/enter").data["phase"] == "Succeeded"
    assert [one for one in cluster.writes if "GPUSpec" in one or "h100" in one] == []


def test_writes_are_replayed_and_conflict(api: Api, cluster: FakeCluster) -> None:
    api.post(SPECS, {"operationID": "a", "name": "x", "memory": "1Gi"})

    same = api.post(SPECS, {"operationID": "a", "name": "x", "memory": "1024Mi", "gpu": 0})
    other = api.post(SPECS, {"operationID": "a", "name": "x", "memory": "2Gi"})
    taken = api.post(SPECS, {"operationID": "b", "name": "x"})

    assert same.status == 200
    assert (other.status, other.code) == (409, "operation_conflict")
    assert (taken.status, taken.code, taken.fields) == (409, "name_conflict", ["name"])
    assert Operation.objects.count() == 1
    assert GpuSpec.objects.count() == 1


def test_a_change_replaces_only_the_given_fields(api: Api, cluster: FakeCluster) -> None:
    spec_row("x", product="A", warm_target=3)

    answer = api.patch(f"{SPECS}/x", {"operationID": "p", "product": "", "mayPreempt": False})

    found = api.get(f"{SPECS}/x").data
    assert answer.status == 202
    assert (found["product"], found["mayPreempt"], found["warmTarget"]) == (None, False, 3)
    assert found["updatedAt"] > found["createdAt"]
    again = api.patch(f"{SPECS}/x", {"operationID": "p", "product": "", "mayPreempt": False})
    assert again.status == 200


def test_a_spec_can_be_deleted_once_it_is_disabled(api: Api, cluster: FakeCluster) -> None:
    spec_row("x")

    refused = api.delete(f"{SPECS}/x", operationID="d1")
    api.patch(f"{SPECS}/x", {"operationID": "off", "enabled": False})
    removed = api.delete(f"{SPECS}/x", operationID="d2")

    assert (refused.status, refused.code) == (409, "phase_conflict")
    assert removed.status == 202
    assert api.get(f"{SPECS}/x").status == 404
    assert api.delete(f"{SPECS}/x", operationID="d2").status == 200
    assert not Operation.objects.filter(operation_id="d1").exists()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "-a"}, "name"),
        ({"name": "a" * 64}, "name"),
        ({"name": None}, "name"),
        ({"operationID": "a b"}, "operationID"),
        ({"cpu": "0"}, "cpu"),
        ({"cpu": "much"}, "cpu"),
        ({"cpu": 8}, "cpu"),
        ({"memory": "1"}, "memory"),
        ({"gpu": -1}, "gpu"),
        ({"gpu": 1.5}, "gpu"),
        ({"gpu": 10**9}, "gpu"),
        ({"product": "a b"}, "product"),
        ({"warmTarget": -1}, "warmTarget"),
        ({"warmTarget": 10**6}, "warmTarget"),
        ({"enabled": "yes"}, "enabled"),
        ({"description": "x" * 201}, "description"),
        ({"placement": {"nodeSelector": {"a b": "c"}}}, "placement.nodeSelector"),
        ({"placement": {"nodeSelector": {"a": "c d"}}}, "placement.nodeSelector.a"),
        ({"placement": {"tolerations": [{"key": "k", "operator": "Maybe"}]}}, "placement"),
        ({"placement": []}, "placement"),
        ({"warm_target": 1}, "warm_target"),
    ],
    ids=str,
)
def test_bad_input_names_the_field_and_leaves_nothing(
    api: Api, cluster: FakeCluster, change: dict[str, Any], field: str
) -> None:
    spec_row("known")
    body = {**WHOLE, **change}
    answers = [api.post(SPECS, body)]
    if "name" not in change:
        answers.append(api.patch(f"{SPECS}/known", {"operationID": "p", **change}))

    for answer in answers:
        assert (answer.status, answer.code) == (400, "invalid_request")
        assert answer.fields[0].startswith(field)
    assert GpuSpec.objects.count() == 1
    assert not Operation.objects.exists()


@pytest.mark.parametrize("name", ["no", "A", "%00", "a%2Fb", "a" * 64, "..", "é"])
def test_a_missing_object_is_a_404(api: Api, cluster: FakeCluster, name: str) -> None:
    change = b'{"operationID":"p","gpu":1}'

    answers = [
        api.send("GET", f"{SPECS}/{name}", b""),
        api.send("PATCH", f"{SPECS}/{name}", change),
        api.send("DELETE", f"{SPECS}/{name}?operationID=d", b""),
    ]

    assert [(answer.status, answer.code) for answer in answers] == [(404, "not_found")] * 3
    assert not Operation.objects.exists()


def test_the_list_is_filtered_and_paged_with_few_queries(
    api: Api, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(5):
        spec_row(f"s{number}", is_enabled=number % 2 == 0)

    with django_assert_max_num_queries(5):
        first = api.get(SPECS, limit="3").json
    rest = api.get(SPECS, limit="3", cursor=first["page"]["next"]).data

    assert [one["name"] for one in first["data"] + rest] == ["s4", "s3", "s2", "s1", "s0"]
    assert [one["name"] for one in api.get(SPECS, enabled="false").data] == ["s3", "s1"]
    assert [one["name"] for one in api.get(SPECS, search="2").data] == ["s2"]
    assert api.get(SPECS, enabled="maybe").fields == ["enabled"]
