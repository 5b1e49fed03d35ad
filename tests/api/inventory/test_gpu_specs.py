"""The routes of the catalogue: entries exist immediately, changes do not affect running units."""

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from gpuplatform.operations import driver
from gpuplatform.operations.models import Operation
from gpuplatform.workloads.placement import MAX_LABELS
from inventory.models import GpuSpec, Node
from tests.factories.node_rows import node_row
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
    "resourceName": "nvidia.com/mig-1g.10gb",
    "resources": {"rdma/hca": "1"},
    "product": "NVIDIA-H100-80GB-HBM3",
    "placement": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]},
    "warmImages": ["vllm/vllm-openai:v0.11.0", "registry.example.com/team/trainer:1.4"],
    "imagePullSecrets": [{"name": "registry"}],
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
    assert set(found) - set(WHOLE) == {"createdAt", "updatedAt", "products"}


def test_omitted_fields_have_their_defaults(api: Api, cluster: FakeCluster) -> None:
    api.post(SPECS, {"operationID": "enter", "name": "cpu", "gpu": 0})

    found = api.get(f"{SPECS}/cpu").data

    assert (found["gpu"], found["warmTarget"], found["enabled"]) == (0, 0, True)
    assert (found["mayPreempt"], found["cpu"], found["placement"]) == (True, None, None)
    assert (found["warmImages"], found["imagePullSecrets"]) == ([], [])
    assert (found["resourceName"], found["resources"]) == ("nvidia.com/gpu", None)


@pytest.mark.parametrize("gpu", [None, ...], ids=["null", "omitted"])
def test_the_number_of_gpus_must_be_specified(api: Api, cluster: FakeCluster, gpu: object) -> None:
    body = {"operationID": "enter", "name": "x", **({} if gpu is ... else {"gpu": gpu})}

    answer = api.post(SPECS, body)

    assert (answer.status, answer.code, answer.fields) == (400, "invalid_request", ["gpu"])
    assert not GpuSpec.objects.exists()


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({}, ["A100", "H100"]),
        ({"product": "H100"}, ["H100"]),
        ({"placement": {"nodeSelector": {"nvidia.com/gpu.product": "A100"}}}, ["A100"]),
        ({"resource_name": "amd.com/gpu"}, ["MI300"]),
        ({"resource_name": "other.com/gpu"}, []),
        ({"gpu": 0}, []),
    ],
    ids=str,
)
def test_a_spec_has_the_products_that_a_unit_can_get(
    api: Api, cluster: FakeCluster, columns: dict[str, Any], expected: list[str]
) -> None:
    node_row("n1", product="H100")
    node_row("n2", product="A100", is_schedulable=False)
    node_row("n3", product="A100")
    node_row("n4", product="V100", gpus=0)
    node_row("n5", product="")
    amd = {"amd.com/gpu": "8"}
    node_row("n6", product="MI300", capacity=amd, allocatable=amd)
    node_row("n7", product="K80", is_present=False)
    spec_row("x", **columns)

    assert api.get(f"{SPECS}/x").data["products"] == expected
    assert [one["products"] for one in api.get(SPECS).data] == [expected]


def test_the_products_are_null_while_the_nodes_are_not_known(
    api: Api, cluster: FakeCluster
) -> None:
    spec_row("x")
    spec_row("y", product="H100")

    before = {one["name"]: one["products"] for one in api.get(SPECS).data}
    Node.objects.all().delete()
    after = {one["name"]: one["products"] for one in api.get(SPECS).data}

    assert before == after == {"x": None, "y": ["H100"]}


def test_the_operation_of_a_spec_ends_without_the_cluster(api: Api, cluster: FakeCluster) -> None:
    api.post(SPECS, WHOLE)

    driver.run(Operation.objects.get().id)

    assert api.get(f"{JOBS}/enter").data["phase"] == "Succeeded"
    assert [one for one in cluster.writes if "GPUSpec" in one or "h100" in one] == []


def test_writes_are_replayed_and_conflict(api: Api, cluster: FakeCluster) -> None:
    api.post(SPECS, {"operationID": "a", "name": "x", "gpu": 0, "memory": "1Gi"})

    same = api.post(SPECS, {"operationID": "a", "name": "x", "memory": "1024Mi", "gpu": 0})
    other = api.post(SPECS, {"operationID": "a", "name": "x", "gpu": 0, "memory": "2Gi"})
    taken = api.post(SPECS, {"operationID": "b", "name": "x", "gpu": 0})

    assert same.status == 200
    assert (other.status, other.code) == (409, "operation_conflict")
    assert (taken.status, taken.code, taken.fields) == (409, "name_conflict", ["name"])
    assert Operation.objects.count() == 1
    assert GpuSpec.objects.count() == 1


def test_equal_resources_are_the_same_request(api: Api, cluster: FakeCluster) -> None:
    plain = {"operationID": "a", "name": "x", "gpu": 1, "resources": {"b/c": "4000", "a/b": "1"}}
    api.post(SPECS, plain)

    again = {**plain, "resourceName": "nvidia.com/gpu", "resources": {"a/b": "1", "b/c": "4k"}}

    assert api.post(SPECS, again).status == 200
    assert api.get(f"{SPECS}/x").data["resources"] == {"a/b": "1", "b/c": "4000"}


@pytest.mark.parametrize(
    "change",
    [{"resourceName": "rdma/hca"}, {"resources": {"nvidia.com/gpu": "1"}}],
    ids=["resource", "further resources"],
)
def test_a_change_that_counts_a_resource_twice_is_rejected(
    api: Api, cluster: FakeCluster, change: dict[str, Any]
) -> None:
    spec_row("x", resources={"rdma/hca": "1"})

    answer = api.patch(f"{SPECS}/x", {"operationID": "p", **change})

    assert (answer.status, answer.code) == (400, "invalid_request")
    assert answer.fields[0].startswith("resources['")
    assert not Operation.objects.exists()
    both = {"operationID": "p", "resourceName": "rdma/hca", "resources": {}}
    assert api.patch(f"{SPECS}/x", both).status == 202


def test_the_label_of_the_product_counts_in_the_node_selector(
    api: Api, cluster: FakeCluster
) -> None:
    selector = {f"label-{number}": "a" for number in range(MAX_LABELS)}
    body = {"name": "x", "gpu": 1, "placement": {"nodeSelector": selector}}

    created = api.post(SPECS, {"operationID": "a", **body, "product": "H100"})
    assert (created.status, created.fields) == (400, ["placement.nodeSelector"])
    assert api.post(SPECS, {"operationID": "b", **body}).status == 202
    changed = api.patch(f"{SPECS}/x", {"operationID": "c", "product": "H100"})
    assert (changed.status, changed.fields) == (400, ["placement.nodeSelector"])


def test_a_change_replaces_only_the_given_fields(api: Api, cluster: FakeCluster) -> None:
    spec_row("x", product="A", warm_target=3)

    answer = api.patch(f"{SPECS}/x", {"operationID": "p", "product": "", "mayPreempt": False})

    found = api.get(f"{SPECS}/x").data
    assert answer.status == 202
    assert (found["product"], found["mayPreempt"], found["warmTarget"]) == (None, False, 3)
    assert found["updatedAt"] > found["createdAt"]
    again = api.patch(f"{SPECS}/x", {"operationID": "p", "product": "", "mayPreempt": False})
    assert again.status == 200


def test_warm_images_can_be_cleared(api: Api, cluster: FakeCluster) -> None:
    spec_row("x", warm_images=["a"], image_pull_secrets=[{"name": "registry"}])

    api.patch(f"{SPECS}/x", {"operationID": "p", "warmImages": [], "imagePullSecrets": []})

    found = api.get(f"{SPECS}/x").data
    assert (found["warmImages"], found["imagePullSecrets"]) == ([], [])


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
        ({"resourceName": "gpu"}, "resourceName"),
        ({"resourceName": "cpu"}, "resourceName"),
        ({"resourceName": ""}, "resourceName"),
        ({"resourceName": None}, "resourceName"),
        ({"resourceName": {"nvidia.com/gpu": 1}}, "resourceName"),
        ({"resourceName": "NVIDIA.com/gpu"}, "resourceName"),
        ({"resourceName": "nvidia.com/"}, "resourceName"),
        ({"resourceName": "a/b/c"}, "resourceName"),
        ({"resourceName": "kubernetes.io/gpu"}, "resourceName"),
        ({"resourceName": "requests.nvidia.com/gpu"}, "resourceName"),
        ({"resourceName": f"a/{'x' * 64}"}, "resourceName"),
        ({"resourceName": f"{'a.' * 122}a/b"}, "resourceName"),
        ({"resources": []}, "resources"),
        ({"resources": {f"a/b{n}": "1" for n in range(17)}}, "resources"),
        ({"resources": {"cpu": "1"}}, "resources.cpu"),
        ({"resources": {"memory": "1Gi"}}, "resources.memory"),
        ({"resources": {"ephemeral-storage": "1Gi"}}, "resources.ephemeral-storage"),
        ({"resources": {"hugepages-2Mi": "4Mi"}}, "resources.hugepages-2Mi"),
        ({"resources": {"a.kubernetes.io/b": "1"}}, "resources['a.kubernetes.io/b']"),
        ({"resources": {"rdma/hca": 1}}, "resources['rdma/hca']"),
        ({"resources": {"rdma/hca": "0"}}, "resources['rdma/hca']"),
        ({"resources": {"rdma/hca": "-1"}}, "resources['rdma/hca']"),
        ({"resources": {"rdma/hca": "500m"}}, "resources['rdma/hca']"),
        ({"resources": {"rdma/hca": "many"}}, "resources['rdma/hca']"),
        ({"resources": {"rdma/hca": "1e999999"}}, "resources['rdma/hca']"),
        (
            {"resourceName": "amd.com/gpu", "resources": {"amd.com/gpu": "1"}},
            "resources['amd.com/gpu']",
        ),
        ({"product": "a b"}, "product"),
        ({"warmTarget": -1}, "warmTarget"),
        ({"warmTarget": 10**6}, "warmTarget"),
        ({"enabled": "yes"}, "enabled"),
        ({"description": "x" * 201}, "description"),
        ({"placement": {"nodeSelector": {"a b": "c"}}}, "placement.nodeSelector"),
        ({"placement": {"nodeSelector": {"a": "c d"}}}, "placement.nodeSelector.a"),
        ({"placement": {"tolerations": [{"key": "k", "operator": "Maybe"}]}}, "placement"),
        ({"placement": []}, "placement"),
        ({"warmImages": "busybox"}, "warmImages"),
        ({"warmImages": ["a", 3]}, "warmImages[1]"),
        ({"warmImages": ["a", "A"]}, "warmImages[1]"),
        ({"warmImages": ["a", "b", "docker.io/library/a:latest"]}, "warmImages[2]"),
        ({"warmImages": [f"a:{number}" for number in range(11)]}, "warmImages"),
        ({"warmImages": [None]}, "warmImages[0]"),
        ({"imagePullSecrets": ["registry"]}, "imagePullSecrets[0]"),
        ({"imagePullSecrets": [{"name": "a"}, {"name": "a"}]}, "imagePullSecrets[1].name"),
        ({"imagePullSecrets": [{"name": "gpu-platform-nats"}]}, "imagePullSecrets[0].name"),
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
