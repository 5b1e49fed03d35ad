"""The routes of operators: stock by state, seeding and removal, and the capacity."""

from typing import Any

import pytest
from django.db.models.functions import Now
from pytest_django import DjangoAssertNumQueries, Settings

from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.kube.kinds import NODE
from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.selectors import tenant_by_name
from inventory.models import GpuSpec
from inventory.services.nodes import nodes_update
from tests.factories.inventory import pool_row
from tests.factories.node_rows import node_row, pod_of
from tests.factories.nodes import records
from tests.factories.unit_rows import spec_row, stock_row, unit_row
from tests.fakes.api import INVENTORY, JOBS, STOCK, Api
from tests.fakes.cluster import FakeCluster
from units.models import GpuUnit
from units.phases import UnitPhase

pytestmark = pytest.mark.django_db

H100 = "NVIDIA-H100-80GB-HBM3"
SLICE = "nvidia.com/mig-1g.10gb"


def node(name: str, *, gpus: str = "8", product: str = H100) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": product}},
        "status": {"allocatable": {"nvidia.com/gpu": gpus}},
    }


def stock_of_every_state() -> None:
    unit_row(name="taken")
    operation = Operation.objects.create(
        tenant=tenant_by_name(),
        operation_id="claims",
        kind="unit.create",
        hash_version=1,
        object_kind="GPUUnit",
        object_namespace="runtime-instance",
        object_name="x",
        due_at=Now(),
    )
    stock_row(name="is-ready")
    stock_row(UnitPhase.PROGRESSING, name="is-starting")
    stock_row(UnitPhase.FAILED, name="is-failed")
    stock_row(name="is-claimed", claimed_by=operation)
    stock_row(UnitPhase.TERMINATING, name="is-deleting", deletion_requested_at=Now())
    stock_row(name="consumed", consumed_by="some-uid", consumed_at=Now())
    stock_row(name="gone", deleted_at=Now())


class TestStock:
    def test_a_seeding_is_accepted_with_its_rows(self, api: Api, cluster: FakeCluster) -> None:
        spec_row()
        body = {"operationID": "seed", "specName": "g1.1", "memory": "64Gi", "gpu": 1}

        answer = api.post(STOCK, {**body, "replicas": 3})

        assert (answer.status, answer.data["kind"]) == (202, "stock.seed")
        assert answer.headers["Location"] == f"{JOBS}/seed"
        assert answer.data["progress"] == {"done": 0, "total": 3}
        rows = api.get(answer.data["object"]["href"]).data
        assert [(row["state"], row["ordinal"]) for row in rows] == [
            ("starting", 3),
            ("starting", 2),
            ("starting", 1),
        ]
        assert rows[0]["operationID"] == "seed"
        assert {row["specCatalogued"] for row in rows} == {True}
        assert api.post(STOCK, {**body, "replicas": 3}).status == 200
        assert api.post(STOCK, {**body, "replicas": 4}).code == "operation_conflict"
        assert GpuUnit.objects.count() == 3

    def test_stock_has_the_resources_of_its_spec(self, api: Api, cluster: FakeCluster) -> None:
        further = {"rdma/hca": "1"}
        spec_row("mig", resource_name=SLICE, resources=further)
        body = {"operationID": "seed", "specName": "mig", "gpu": 1, "replicas": 1}

        api.post(STOCK, {**body, "resourceName": SLICE, "resources": further})

        (row,) = api.get(STOCK).data
        assert (row["resourceName"], row["resources"], row["gpu"]) == (SLICE, further, 1)

    def test_a_seeding_that_counts_a_resource_twice_leaves_nothing(
        self, api: Api, cluster: FakeCluster
    ) -> None:
        twice = {"nvidia.com/gpu": "1"}
        spec_row("mig", resources=twice)
        body = {"operationID": "seed", "specName": "mig", "gpu": 1, "replicas": 1}

        answer = api.post(STOCK, {**body, "resources": twice})

        assert (answer.status, answer.fields) == (400, ["resources['nvidia.com/gpu']"])
        assert not GpuUnit.objects.exists()

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"replicas": 0}, "replicas"),
            ({"replicas": -1}, "replicas"),
            ({"replicas": "2"}, "replicas"),
            ({"replicas": True}, "replicas"),
            ({"replicas": 10**9}, "replicas"),
            ({"replicas": None}, "replicas"),
            ({"specName": "a b"}, "specName"),
            ({"operationID": ""}, "operationID"),
            ({"memory": "lots"}, "memory"),
            ({"cpu": "0"}, "cpu"),
            ({"gpu": -1}, "gpu"),
            ({"resourceName": "gpu"}, "resourceName"),
            ({"resourceName": "amd.com/gpu"}, "resourceName"),
            ({"resources": {"cpu": "1"}}, "resources.cpu"),
            ({"resources": {"rdma/hca": "1"}}, "resources"),
            ({"image": "a:1"}, "image"),
            ({"name": "a"}, "name"),
            ({"gpu": 2}, "gpu"),
            ({"memory": "1Gi"}, "memory"),
        ],
        ids=str,
    )
    def test_bad_input_names_the_field_and_leaves_nothing(
        self, api: Api, cluster: FakeCluster, change: dict[str, Any], field: str
    ) -> None:
        spec_row()
        body = {"operationID": "seed", "specName": "g1.1", "replicas": 2, **change}

        answer = api.post(STOCK, body)

        assert (answer.status, answer.code) == (400, "invalid_request")
        assert answer.fields == [field]
        assert not Operation.objects.exists()
        assert not GpuUnit.objects.exists()
        assert GpuSpec.objects.count() == 1

    def test_one_failed_stock_unit_is_read_and_removed(
        self, api: Api, cluster: FakeCluster
    ) -> None:
        failed = stock_row(UnitPhase.FAILED, reason="PodStartupFailed")
        address = f"{STOCK}/{failed.name}"

        read = api.get(address)
        removed = api.delete(address, operationID="remove")
        replay = api.delete(address, operationID="remove")
        again = api.delete(address, operationID="again")

        assert (read.data["state"], read.data["name"]) == ("failed", failed.name)
        assert (removed.status, replay.status) == (202, 200)
        assert removed.data["object"]["href"] == address
        assert (again.status, again.code) == (409, "phase_conflict")
        GpuUnit.objects.update(deleted_at=Now())
        assert api.get(address).status == 404
        assert api.delete(address, operationID="remove").status == 200
        assert api.delete(address, operationID="late").status == 404

    def test_claimed_stock_is_not_removed(self, api: Api, cluster: FakeCluster) -> None:
        stock_of_every_state()

        answer = api.delete(f"{STOCK}/is-claimed", operationID="remove")

        assert (answer.status, answer.code) == (409, "phase_conflict")

    def test_several_states_of_stock_are_listed(self, api: Api, cluster: FakeCluster) -> None:
        stock_of_every_state()

        listed = api.get(STOCK, state="ready,failed").data

        assert [one["name"] for one in listed] == ["is-failed", "is-ready"]
        assert len(api.get(STOCK, search="IS-R").data) == 1

    def test_the_exact_number_is_removed_or_none(self, api: Api, cluster: FakeCluster) -> None:
        stock_of_every_state()
        stock_row(name="ready-2")
        ask = {"specName": "g1.1"}

        too_many = api.delete(STOCK, operationID="a", number="3", **ask)
        right = api.delete(STOCK, operationID="b", number="2", **ask)

        assert (too_many.status, too_many.code) == (409, "insufficient_capacity")
        assert (right.status, right.data["kind"]) == (202, "stock.remove")
        assert api.get(right.data["object"]["href"]).status == 200
        assert api.delete(STOCK, operationID="b", number="2", **ask).status == 200
        assert api.get(STOCK, state="ready").data == []

    @pytest.mark.parametrize(
        ("query", "field"),
        [
            ({"number": "1"}, "specName"),
            ({"specName": "g1.1"}, "number"),
            ({"specName": "g1.1", "number": "0"}, "number"),
            ({"specName": "g1.1", "number": "1.5"}, "number"),
            ({"specName": "a b", "number": "1"}, "specName"),
            ({"specName": "g1.1", "number": "1", "force": "1"}, "force"),
        ],
    )
    def test_an_invalid_removal_is_a_400(
        self, api: Api, cluster: FakeCluster, query: dict[str, str], field: str
    ) -> None:
        answer = api.delete(STOCK, operationID="a", **query)

        assert (answer.status, answer.fields) == (400, [field])

    def test_the_list_is_filtered_by_state(self, api: Api) -> None:
        stock_of_every_state()

        for state in ("starting", "ready", "claimed", "failed", "deleting"):
            found = api.get(STOCK, state=state).data
            assert [(row["name"], row["state"]) for row in found] == [(f"is-{state}", state)]
        everything = api.get(STOCK).data
        assert len(everything) == 5
        assert {row["claimedBy"] for row in everything} == {None, "claims"}
        assert api.get(STOCK, state="gone").fields == ["state"]
        assert api.get(STOCK, specName="other").data == []

    def test_the_list_costs_few_queries(
        self, api: Api, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        for _ in range(20):
            stock_row()

        with django_assert_max_num_queries(5):
            assert len(api.get(STOCK).data) == 20


class TestInventory:
    def test_a_spec_without_an_entry_is_marked(self, api: Api, cluster: FakeCluster) -> None:
        stock_row(spec_name="deleted")
        pool_row(spec_name="by-hand")
        spec_row("off", is_enabled=False)
        spec_row("on")

        found = api.get(INVENTORY).data["specs"]

        marks = {one["specName"]: (one["catalogued"], one["enabled"]) for one in found}
        assert marks == {
            "by-hand": (False, False),
            "deleted": (False, False),
            "off": (True, False),
            "on": (True, True),
        }

    def test_specs_count_units_and_the_sum_holds(self, api: Api, cluster: FakeCluster) -> None:
        stock_of_every_state()
        spec_row(warm_target=4)
        pool_row(spec={"specName": "g1.1", "replicas": 2, "gpu": 2})

        (spec,) = api.get(INVENTORY).data["specs"]

        states = {key: spec[key] for key in ("ready", "claimed", "starting", "failed", "deleting")}
        assert states == dict.fromkeys(states, 1)
        assert (spec["seeded"], spec["consumed"], spec["deleted"]) == (7, 1, 1)
        assert spec["total"] == 5 == sum(states.values())
        assert (spec["active"], spec["heldByPools"], spec["warmTarget"]) == (1, 2, 4)

    def test_products_count_each_gpu_once(self, api: Api, cluster: FakeCluster) -> None:
        stock_of_every_state()
        spec_row()
        pool = pool_row(spec={"specName": "g1.1", "replicas": 2, "gpu": 2})
        held = GpuUnit.objects.filter(name__in=("taken", "is-ready", "is-claimed"))
        node_row("a", pods=[pod_of(row) for row in held])
        node_row("b", pods=[pod_of(pool, 2), pod_of(None, 3)])

        found = api.get(INVENTORY).data

        (product,) = found["products"]
        keys = ("product", "nodes", "allocatable", "free", "largestFree", "excess")
        assert tuple(product[key] for key in keys) == (H100, 2, 16, 8, 5, 0)
        uses = ("active", "ready", "claimed", "heldByPools", "others", "starting")
        assert tuple(product[use] for use in uses) == (1, 1, 1, 2, 3, 0)
        assert found["specs"][0]["free"] == 8

    def test_specs_of_two_products_are_distinct(self, api: Api, cluster: FakeCluster) -> None:
        spec_row("one", product="L40S")
        spec_row("two", placement={"nodeSelector": {"nvidia.com/gpu.product": H100}}, gpu=2)
        spec_row("any")
        node_row("a")
        node_row("b", 4, product="L40S", pods=[pod_of(stock_row(spec_name="one"))])

        found = api.get(INVENTORY).data

        free = {one["product"]: one["free"] for one in found["products"]}
        assert free == {"L40S": 3, H100: 8}
        assert {one["specName"]: one["free"] for one in found["specs"]} == {
            "any": 11,
            "one": 3,
            "two": 4,
        }

    def test_each_resource_of_a_node_is_counted_separately(
        self, api: Api, cluster: FakeCluster
    ) -> None:
        spec_row("whole")
        spec_row("slice", resource_name=SLICE, gpu=2)
        spec_row("amd", resource_name="amd.com/gpu", gpu=3)
        whole = stock_row(spec_name="whole")
        slices = stock_row(spec_name="slice", resource_name=SLICE, gpu=2)
        mixed = {"nvidia.com/gpu": "4", SLICE: "28", "rdma/hca": "1", "cpu": "64"}
        pods = [pod_of(whole), pod_of(slices, 2, resource=SLICE)]
        for pod in pods:
            pod["spec"]["nodeName"] = "a"
        amd = {"metadata": {"name": "c"}, "status": {"allocatable": {"amd.com/gpu": "8"}}}
        nodes = [{**node("a"), "status": {"allocatable": mixed}}, node("b"), amd]
        nodes_update(records(nodes, pods), version=1, is_complete=True)

        found = api.get(INVENTORY).data

        keys = ("nodes", "allocatable", "free", "ready")
        assert {
            (one["product"], one["resourceName"]): tuple(one[key] for key in keys)
            for one in found["products"]
        } == {
            (H100, "nvidia.com/gpu"): (2, 12, 11, 1),
            (H100, SLICE): (1, 28, 26, 2),
            (None, "amd.com/gpu"): (1, 8, 8, 0),
        }

    @pytest.mark.parametrize("gpus", ["x", "", "-3", "1e99"])
    def test_a_malformed_node_is_not_an_error(
        self, api: Api, cluster: FakeCluster, gpus: str
    ) -> None:
        cluster.put(NODE, node("a", gpus=gpus))
        cluster.put(NODE, {"metadata": {"name": "b", "labels": None}, "status": None})

        assert api.get(INVENTORY).status == 200

    def test_without_the_cluster_the_rows_still_count(
        self, api: Api, cluster: FakeCluster
    ) -> None:
        stock_row()
        cluster.fail("list", NODE, ClusterUnavailable("connection refused"))

        found = api.get(INVENTORY).data

        assert found["products"] is None
        assert (found["specs"][0]["ready"], found["specs"][0]["free"]) == (1, None)

    def test_a_platform_without_a_cluster_refuses_it_too(
        self, api: Api, settings: Settings
    ) -> None:
        settings.KUBE_MODE = "off"

        assert api.get(INVENTORY).data == {"products": None, "specs": []}

    def test_a_malformed_pool_is_not_an_error(self, api: Api, cluster: FakeCluster) -> None:
        pool_row(spec={"gpu": "many", "replicas": 2})
        pool_row(spec={"gpu": {"a": 1}})
        pool_row(spec={}, spec_name="")

        assert {one["specName"] for one in api.get(INVENTORY).data["specs"]} == {"g1.1", ""}

    def test_it_costs_few_queries(
        self,
        api: Api,
        cluster: FakeCluster,
        django_assert_max_num_queries: DjangoAssertNumQueries,
    ) -> None:
        for number in range(10):
            spec_row(f"s{number}")
            stock_row(spec_name=f"s{number}")

        with django_assert_max_num_queries(5):
            assert len(api.get(INVENTORY).data["specs"]) == 10
