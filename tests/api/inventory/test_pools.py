"""The routes of stock pools: responses with their headers, and the stored rows."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db.models.functions import Now
from pytest_django import DjangoAssertNumQueries, Settings

from gpuplatform.kube.kinds import STOCK_POOL
from gpuplatform.operations import driver
from gpuplatform.operations.models import Operation
from gpuplatform.reconciliation.gate import cluster_state
from gpuplatform.reconciliation.models import ClusterState
from inventory.mirror import POOL_MIRROR
from inventory.models import GpuSpec, StockPool
from tests.factories.inventory import accept_create, create_body, pool_resource, pool_row
from tests.factories.unit_rows import spec_row
from tests.fakes.api import JOBS, POOLS, Answer, Api
from tests.fakes.cluster import FakeCluster

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogue")]

SHAPE = {
    "name",
    "namespace",
    "specName",
    "specCatalogued",
    "image",
    "memory",
    "gpu",
    "resourceName",
    "resources",
    "placement",
    "template",
    "desiredReplicas",
    "availableReplicas",
    "allocatedReplicas",
    "phase",
    "reason",
    "message",
    "cause",
    "serviceName",
    "conditions",
    "generation",
    "observedGeneration",
    "uid",
    "createdAt",
    "deletionTimestamp",
    "lastSyncTime",
    "operationID",
}


def test_a_create_is_accepted_with_its_address(api: Api, cluster: FakeCluster) -> None:
    answer = api.post(POOLS, create_body(operationID="op-a", name="a"))

    assert answer.status == 202
    assert answer.headers["Location"] == f"{JOBS}/op-a"
    assert "Idempotent-Replayed" not in answer.headers
    assert answer.data["phase"] == "Pending"
    assert answer.data["kind"] == "stockpool.create"
    assert answer.data["object"]["href"] == f"{POOLS}/a?namespace=runtime-pools"
    assert answer.data["error"] is None


def test_the_addresses_of_a_reply_exist(api: Api, cluster: FakeCluster) -> None:
    answer = api.post(POOLS, create_body())

    assert api.get(answer.headers["Location"]).status == 200
    assert api.get(answer.data["object"]["href"]).status == 200


def test_a_get_right_after_the_202_succeeds(api: Api, cluster: FakeCluster) -> None:
    api.post(POOLS, create_body(name="a", operationID="op-a", memory="1.5Gi"))

    pool = api.get(f"{POOLS}/a").data

    assert set(pool) == SHAPE
    assert (pool["phase"], pool["uid"], pool["memory"]) == ("Pending", None, "1536Mi")
    assert (pool["gpu"], pool["image"], pool["operationID"]) == (0, None, "op-a")


PLACEMENT = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
OF_THE_CATALOGUE = {
    "resourceName": "nvidia.com/mig-1g.10gb",
    "resources": {"rdma/hca": "1"},
    "placement": {**PLACEMENT, "nodeSelector": {"nvidia.com/gpu.product": "H100"}},
}


def placed(api: Api, **fields: object) -> dict[str, Any]:
    """Create the pool of a catalogued GPU spec; return the fields that pods need of a node."""
    spec_row(
        "mig",
        resource_name="nvidia.com/mig-1g.10gb",
        resources={"rdma/hca": "1"},
        placement=PLACEMENT,
        product="H100",
    )
    answer = api.post(POOLS, create_body(name="a", specName="mig", gpu=1, **fields))
    assert answer.status == 202
    driver.run(Operation.objects.get().id)
    found = api.get(f"{POOLS}/a").data
    return {name: found[name] for name in OF_THE_CATALOGUE}


def test_a_pool_has_the_resources_and_the_placement_of_its_spec(
    api: Api, cluster: FakeCluster
) -> None:
    assert placed(api) == OF_THE_CATALOGUE
    stored = cluster.get(STOCK_POOL, "a", namespace="runtime-pools")
    assert stored is not None
    assert stored["spec"].items() >= OF_THE_CATALOGUE.items()


def test_fields_of_the_request_replace_those_of_the_catalogue(
    api: Api, cluster: FakeCluster
) -> None:
    own: dict[str, Any] = {
        "resourceName": "nvidia.com/gpu",
        "resources": {},
        "placement": {"nodeSelector": {"zone": "a"}},
    }

    assert placed(api, **own) == {**own, "resources": None}


def test_a_pool_of_a_deleted_spec_is_marked(api: Api, cluster: FakeCluster) -> None:
    pool_row(name="a", spec_name="deleted")
    pool_row(name="b")

    assert [one["specCatalogued"] for one in api.get(POOLS).data] == [True, False]
    assert api.get(f"{POOLS}/a").data["specCatalogued"] is False


def test_an_empty_placement_of_a_request_means_any_node(api: Api, cluster: FakeCluster) -> None:
    assert placed(api, placement={}) == {**OF_THE_CATALOGUE, "placement": None}


def test_a_later_change_of_the_catalogue_changes_no_pool_and_no_replay(
    api: Api, cluster: FakeCluster
) -> None:
    before = placed(api)
    GpuSpec.objects.update(placement={}, product="A100", resource_name="amd.com/gpu")
    operation = Operation.objects.get()

    again = api.post(
        POOLS,
        {"operationID": operation.operation_id, **operation.payload},
    )

    assert (again.status, again.headers["Idempotent-Replayed"]) == (200, "true")
    found = api.get(f"{POOLS}/a").data
    assert {name: found[name] for name in before} == before


def test_the_placement_of_a_pool_can_be_changed(api: Api, cluster: FakeCluster) -> None:
    placed(api)
    body = {"operationID": "p", "placement": {"nodeSelector": {"zone": "b"}}}

    assert api.patch(f"{POOLS}/a", body).status == 202
    driver.run(Operation.objects.get(operation_id="p").id)

    found = api.get(f"{POOLS}/a").data
    assert found["placement"] == {"nodeSelector": {"zone": "b"}}
    assert found["resourceName"] == "nvidia.com/mig-1g.10gb"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"resourceName": "gpu"}, "resourceName"),
        ({"resources": {"cpu": "1"}}, "resources.cpu"),
        ({"resources": {"a/b": "0.5"}}, "resources['a/b']"),
        ({"resources": {"nvidia.com/gpu": "1"}}, "resources['nvidia.com/gpu']"),
        ({"placement": {"nodeSelector": {"a b": "c"}}}, "placement.nodeSelector['a b']"),
        ({"placement": {"tolerations": [{"key": "a", "operator": "Maybe"}]}}, "placement"),
        ({"placement": None}, "placement"),
        ({"resourceName": "rdma/hca"}, "resources['rdma/hca']"),
    ],
    ids=str,
)
def test_a_resource_that_no_node_can_have_is_rejected_with_its_field(
    api: Api, cluster: FakeCluster, change: dict[str, Any], field: str
) -> None:
    spec_row("g1.1", resources={"rdma/hca": "1"})

    answer = api.post(POOLS, create_body(specName="g1.1", **change))

    assert (answer.status, answer.code) == (400, "invalid_request")
    assert answer.fields[0].startswith(field)
    assert not Operation.objects.exists()
    assert not StockPool.objects.exists()


def test_a_replay_is_a_200_with_the_current_state(api: Api, cluster: FakeCluster) -> None:
    body = create_body()
    api.post(POOLS, body)
    driver.run(Operation.objects.get().id)

    replay = api.post(POOLS, body)

    assert replay.status == 200
    assert replay.headers["Idempotent-Replayed"] == "true"
    assert replay.data["phase"] == "Succeeded"
    assert Operation.objects.count() == 1


def test_a_replay_of_a_failed_operation_returns_the_failure(
    api: Api, cluster: FakeCluster
) -> None:
    body = create_body()
    api.post(POOLS, body)
    Operation.objects.update(
        phase="Failed", due_at=None, ended_at=Now(), error_code="name_conflict", error_message="m"
    )

    replay = api.post(POOLS, body)

    assert (replay.status, replay.data["phase"]) == (200, "Failed")
    assert replay.data["error"] == {"code": "name_conflict", "message": "m", "retryable": False}


def test_a_changed_payload_under_the_same_id_is_a_conflict(api: Api, cluster: FakeCluster) -> None:
    body = create_body(replicas=1)
    api.post(POOLS, body)

    answer = api.post(POOLS, body | {"replicas": 2})

    assert (answer.status, answer.code) == (409, "operation_conflict")


def test_a_name_in_use_is_a_conflict_that_names_the_field(api: Api, cluster: FakeCluster) -> None:
    api.post(POOLS, create_body(name="a"))

    answer = api.post(POOLS, create_body(name="a"))

    assert (answer.status, answer.code, answer.fields) == (409, "name_conflict", ["name"])
    assert Operation.objects.count() == 1


def test_a_pool_without_a_name_gets_one_that_a_replay_finds(
    api: Api, cluster: FakeCluster
) -> None:
    body = {"operationID": "op-a", "specName": "g1.1", "replicas": 0}

    names = [api.post(POOLS, body).data["object"]["name"] for _ in range(2)]

    assert names[0] == names[1]
    assert api.get(f"{POOLS}/{names[0]}").status == 200


def test_a_patch_and_a_delete_are_accepted_and_replayed(api: Api, cluster: FakeCluster) -> None:
    api.post(POOLS, create_body(name="a"))
    change = {"operationID": "up", "replicas": 7}

    assert api.patch(f"{POOLS}/a", change).status == 202
    assert api.patch(f"{POOLS}/a", change).status == 200
    assert api.delete(f"{POOLS}/a", operationID="del").status == 202
    assert api.delete(f"{POOLS}/a", operationID="del").status == 200
    assert api.get(f"{POOLS}/a").data["phase"] == "Terminating"
    assert api.patch(f"{POOLS}/a", change | {"operationID": "up2"}).code == "phase_conflict"


def test_the_whole_life_of_a_pool(api: Api, cluster: FakeCluster) -> None:
    api.post(POOLS, create_body(name="a"))
    api.patch(f"{POOLS}/a", {"operationID": "up", "replicas": 7})
    api.delete(f"{POOLS}/a", operationID="del")
    for operation in Operation.objects.order_by("id"):
        driver.run(operation.id)

    assert [job["phase"] for job in api.get(JOBS).data] == ["Succeeded"] * 3
    StockPool.objects.update(deleted_at=Now())
    assert api.get(f"{POOLS}/a").status == 404
    assert api.delete(f"{POOLS}/a", operationID="del").status == 200


@pytest.mark.parametrize(
    "ask",
    [
        lambda api: api.get(f"{POOLS}/no"),
        lambda api: api.get(f"{POOLS}/a", namespace="elsewhere"),
        lambda api: api.patch(f"{POOLS}/no", {"operationID": "x", "replicas": 1}),
        lambda api: api.delete(f"{POOLS}/no", operationID="x"),
        lambda api: api.get(f"{JOBS}/no"),
    ],
)
def test_a_missing_object_is_a_404_and_leaves_no_operation(
    api: Api, cluster: FakeCluster, ask: Callable[[Api], Answer]
) -> None:
    pool_row(name="a")

    answer = ask(api)

    assert (answer.status, answer.code) == (404, "not_found")
    assert not Operation.objects.exists()


@pytest.mark.parametrize(
    "name",
    [
        "%00",
        "a%00b",
        "A",
        "%C3%84",
        "%FF%FE",
        "a%2Fb",
        "..",
        "-a",
        "a" * 64,
        "a" * 3000,
        "%0A",
        "é",
    ],
)
@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_an_invalid_name_in_the_path_is_a_json_404(
    api: Api, cluster: FakeCluster, name: str, method: str
) -> None:
    body = b'{"operationID":"x","replicas":1}' if method == "PATCH" else b""
    query = "?operationID=x" if method == "DELETE" else ""

    answer = api.send(method, f"{POOLS}/{name}{query}", body)

    assert answer.status in {400, 404}
    assert not Operation.objects.exists()


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "201"},
        {"limit": "1_0"},
        {"limit": ""},
        {"limit": "9" * 30},
        {"cursor": "zzz"},
        {"cursor": "\x00"},
        {"phase": "Sleeping"},
        {"phase": "ready"},
        {"namespace": "A"},
        {"specName": "x" * 64},
        {"search": "\x00"},
        {"seach": "a"},
        {"format": "api"},
        {"limit": ["1", "2"]},
    ],
    ids=str,
)
def test_an_invalid_query_names_the_parameter(api: Api, query: dict[str, Any]) -> None:
    answer = api.get(POOLS, **query)

    assert (answer.status, answer.code) == (400, "invalid_request")
    assert answer.fields == list(query)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", POOLS),
        ("DELETE", POOLS),
        ("PUT", f"{POOLS}/a"),
        ("POST", f"{POOLS}/a"),
        ("POST", JOBS),
    ],
)
def test_a_wrong_method_is_the_envelope(api: Api, method: str, path: str) -> None:
    answer = api.send(method, path, b"{}")

    assert (answer.status, answer.code) == (405, "method_not_allowed")
    assert answer.headers["Allow"]


def test_lists_are_filtered(api: Api) -> None:
    pool_row(name="a-ready", phase="Ready", reason="DeploymentReady", spec_name="g1.1")
    pool_row(name="b-failed", phase="Failed", reason="NameConflict", spec_name="g2.1")
    pool_row(name="c", namespace="elsewhere")
    pool_row(name="gone", deleted_at=Now())

    def names(**query: str) -> list[str]:
        return [pool["name"] for pool in api.get(POOLS, **query).data]

    assert names() == ["c", "b-failed", "a-ready"]
    assert names(phase="Ready") == ["a-ready"]
    assert names(reason="NameConflict") == ["b-failed"]
    assert names(specName="g2.1") == ["b-failed"]
    assert names(namespace="elsewhere") == ["c"]
    assert names(search="fail") == ["b-failed"]
    assert names(search="%") == names(search="_") == []


def test_no_row_is_lost_or_repeated_while_rows_change(api: Api) -> None:
    rows = [pool_row().name for _ in range(7)]
    seen: list[str] = []
    cursor: str | None = ""

    while cursor is not None:
        page = api.get(POOLS, limit="3", **({"cursor": cursor} if cursor else {})).json
        seen += [pool["name"] for pool in page["data"]]
        cursor = page["page"]["next"]
        pool_row()
        StockPool.objects.filter(name=seen[0]).update(deleted_at=Now())

    assert seen == list(reversed(rows))


@pytest.mark.parametrize("path", [POOLS, JOBS])
def test_a_list_costs_the_same_whatever_its_length(
    api: Api,
    cluster: FakeCluster,
    path: str,
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    for _ in range(30):
        accept_create()

    with django_assert_max_num_queries(5):
        assert len(api.get(path, limit="30").data) == 30


def test_reading_one_costs_few_queries(
    api: Api, cluster: FakeCluster, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    accept_create(name="a", operationID="op-a")

    with django_assert_max_num_queries(5):
        api.get(f"{POOLS}/a")
    with django_assert_max_num_queries(5):
        api.get(f"{JOBS}/op-a")


def test_a_platform_without_a_cluster_refuses_writes_only(api: Api, settings: Settings) -> None:
    settings.KUBE_MODE = "off"

    answer = api.post(POOLS, create_body())

    assert (answer.status, answer.code) == (503, "operator_unavailable")
    assert answer.headers["Retry-After"]
    assert api.get(POOLS).status == 200
    assert not Operation.objects.exists()


def test_until_recovery_only_writes_are_refused(api: Api, cluster: FakeCluster) -> None:
    ClusterState.objects.filter(id=cluster_state().id).update(recovery_reason="another database")

    answer = api.post(POOLS, create_body())

    assert (answer.status, answer.code) == (503, "recovery_needed")
    assert answer.headers["Retry-After"]
    assert api.get(POOLS).status == 200


@pytest.mark.parametrize("name", ["a.b", "a" * 64, "a" * 253])
def test_a_pool_created_with_kubectl_under_a_long_name_has_an_address(
    api: Api, cluster: FakeCluster, name: str
) -> None:
    POOL_MIRROR.observed(pool_resource(name))

    assert api.get(f"{POOLS}/{name}").status == 200
    assert api.delete(f"{POOLS}/{name}", operationID="del").status == 202


@pytest.mark.parametrize(
    "namespace", ["kube-system", "runtime-stock", "gpu-platform", "runtime-instance"]
)
def test_a_pool_is_not_created_in_a_reserved_namespace(
    api: Api, cluster: FakeCluster, namespace: str
) -> None:
    answer = api.post(POOLS, create_body(namespace=namespace))

    assert (answer.status, answer.code, answer.fields) == (400, "invalid_request", ["namespace"])
    assert not Operation.objects.exists()


def test_pools_are_created_in_the_configured_namespaces_and_others_are_kept(
    api: Api, cluster: FakeCluster, settings: Settings
) -> None:
    accept_create(name="kept")
    settings.POOL_NAMESPACES = ("pools",)

    rejected = api.post(POOLS, create_body())
    created = api.post(POOLS, create_body(namespace="pools"))
    changed = api.patch(f"{POOLS}/kept", {"operationID": "change", "replicas": 3})

    assert (rejected.status, rejected.fields) == (400, ["namespace"])
    assert (created.status, changed.status) == (202, 202)
