"""The capacity counts GPUs where pods hold them, and adds up for any rows and pods."""

from typing import Any

import pytest
from django.db import transaction
from django.db.models.functions import Now
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from gpuplatform.adminkit.overview.capacity import capacity_view
from gpuplatform.kube.kinds import Manifest
from gpuplatform.observability.collectors import state_values
from gpuplatform.samples.capacity import ProductCapacity, SpecCapacity
from gpuplatform.samples.services import capacity_store
from inventory.models import Node
from inventory.services.nodes import nodes_update
from tests.factories.inventory import pool_row
from tests.factories.nodes import H100, L40S, gpu_pod, node_manifest, records
from tests.factories.unit_rows import spec_row, stock_row, unit_row
from units.capacity import capacity
from units.models import GpuUnit
from units.node_capacity import node_capacities
from units.phases import UnitPhase

pytestmark = pytest.mark.django_db


def store(nodes: list[Manifest], pods: list[Manifest]) -> None:
    version = 1 + max(Node.objects.values_list("resource_version", flat=True), default=0)
    nodes_update(records(nodes, pods), version=version, is_complete=True)


def products() -> dict[str, ProductCapacity]:
    return {one.name: one for one in capacity().products or ()}


def spec(name: str = "g1.1") -> SpecCapacity:
    return next(one for one in capacity().specs if one.name == name)


def adds_up(product: ProductCapacity) -> bool:
    return product.free + sum(product.gpus.values()) == product.allocatable


def test_two_products_and_a_spec_without_a_product() -> None:
    """24 H100 and 12 L40S; the units of a spec without a product run on both."""
    spec_row(gpu=1)
    pool = pool_row()
    units = [unit_row() for _ in range(11)]
    stock = [stock_row(gpu=1) for _ in range(6)]
    nodes = [node_manifest(f"h{n}") for n in range(3)]
    nodes += [node_manifest(f"l{n}", 4, product=L40S) for n in range(3)]
    pods = [gpu_pod(f"u{n}", f"h{n % 2}", unit=row.uid) for n, row in enumerate(units[:7])]
    pods += [gpu_pod(f"v{n}", f"l{n % 3}", unit=row.uid) for n, row in enumerate(units[7:])]
    pods += [gpu_pod(f"s{n}", f"l{n % 3}", unit=row.uid) for n, row in enumerate(stock)]
    pods += [gpu_pod(f"p{n}", "h2", unit="", pool=pool.uid) for n in range(4)]
    store(nodes, pods)

    found = products()

    assert found.keys() == {H100, L40S}
    h100, l40s = found[H100], found[L40S]
    assert (h100.allocatable, h100.free, h100.gpus["active"]) == (24, 13, 7)
    assert (h100.gpus["held_by_pools"], h100.largest_free) == (4, 5)
    assert (l40s.allocatable, l40s.free) == (12, 2)
    assert (l40s.gpus["active"], l40s.gpus["ready"]) == (4, 6)
    assert all(map(adds_up, found.values()))
    assert (spec().gpus["active"], spec().gpus["ready"], spec().free) == (11, 6, 15)
    assert (spec().product, spec().wanted) == ("", 0)


def test_the_states_of_stock_are_uses() -> None:
    ready, failed, deleting, consumed, withheld = (
        stock_row(),
        stock_row(UnitPhase.FAILED),
        stock_row(UnitPhase.TERMINATING, deletion_requested_at=Now()),
        stock_row(consumed_by="u", consumed_at=Now()),
        stock_row(UnitPhase.PROGRESSING, reason="StockWithheld", cause="NodeCordoned"),
    )
    rows = [ready, failed, deleting, consumed, withheld]
    pods = [gpu_pod(f"p{row.pk}", unit=row.uid) for row in rows]
    store([node_manifest()], [*pods, gpu_pod("by hand", unit="made by hand"), gpu_pod("x")])

    [found] = products().values()

    assert {use: number for use, number in found.gpus.items() if number} == {
        "ready": 1,
        "failed": 1,
        "deleting": 1,
        "active": 1,
        "withheld": 1,
        "others": 2,
    }
    assert (found.free, adds_up(found)) == (1, True)


def test_what_no_node_holds_is_wanted() -> None:
    spec_row()
    placed = stock_row(gpu=1)
    stock_row(UnitPhase.FAILED, gpu=1)
    stock_row(UnitPhase.PROGRESSING, gpu=1)
    store([node_manifest()], [gpu_pod(unit=placed.uid)])

    assert (spec().wanted, spec().gpus["ready"], spec().gpus["failed"]) == (2, 1, 0)
    [found] = products().values()
    assert (found.free, sum(found.gpus.values())) == (7, 1)


def test_free_counts_only_nodes_that_would_take_a_unit() -> None:
    spec_row("l40s", product=L40S)
    spec_row("large", gpu=8)
    nodes = [
        node_manifest("h1"),
        node_manifest("h2", is_cordoned=True),
        node_manifest("h3"),
        node_manifest("l1", 4, product=L40S, is_ready=False),
    ]
    store(nodes, [gpu_pod(node="h3")])

    assert (spec("l40s").free, spec("large").free) == (0, 1)
    h100 = products()[H100]
    assert (h100.free, h100.free_unschedulable, h100.largest_free) == (23, 8, 8)


def test_a_node_whose_gpus_failed_holds_no_more_than_it_offers() -> None:
    unit, stock = unit_row(), stock_row()
    pods = [gpu_pod("a", unit=unit.uid, gpus=4), gpu_pod("b", unit=stock.uid, gpus=4)]
    store([node_manifest(gpus=6, capacity=8)], pods)

    [found] = products().values()

    assert (found.gpus["active"], found.gpus["ready"], found.excess) == (4, 2, 2)
    assert (found.total, found.allocatable, found.free) == (8, 6, 0)


def test_nodes_that_were_never_observed_have_no_products() -> None:
    spec_row()

    assert capacity().products is None
    assert spec().free is None


def test_the_overview_the_metrics_and_the_nodes_have_the_same_numbers() -> None:
    unit = unit_row()
    store([node_manifest("n1"), node_manifest("n2")], [gpu_pod(unit=unit.uid), gpu_pod("x", "n2")])
    capacity_store(capacity())

    [found] = products().values()
    nodes = node_capacities(list(Node.objects.order_by("name")))
    values = {metric.name: value for metric, value in state_values()}["gpuplatform_gpus"]
    view = capacity_view(capacity(), str)

    assert sum(values.values()) == found.allocatable == 16
    assert values[H100, "nvidia.com/gpu", "free"] == found.free == 14
    of_nodes = [one for node in nodes for one in node.resources]
    assert sum(one.free for one in of_nodes) == found.free
    assert [one.gpus["others"] for one in of_nodes] == [0, 1]
    assert view.total == "16"
    [[pod], [other]] = (node.pods for node in nodes)
    assert pod.owner is not None
    assert (pod.use, pod.owner.name, pod.owner.tenant) == ("active", unit.name, "default")
    assert (other.use, other.owner) == ("others", None)


def test_the_number_of_queries_does_not_depend_on_the_nodes(
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    spec_row()
    nodes = [node_manifest(f"n{n}") for n in range(30)]
    store(nodes, [gpu_pod(f"p{n}", f"n{n}") for n in range(30)])

    with django_assert_max_num_queries(7):
        capacity()
    with django_assert_max_num_queries(5):
        node_capacities(list(Node.objects.all()))


ROW = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["stock", "active"]),
        "phase": st.sampled_from(UnitPhase.values),
        "is_consumed": st.booleans(),
        "is_gone": st.booleans(),
        "node": st.sampled_from(["", "n1", "n2", "gone"]),
        "gpus": st.integers(0, 5),
        "is_labeled": st.booleans(),
    }
)


@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(ROW, max_size=8),
    st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=2, max_size=2),
)
def test_the_gpus_add_up_for_any_rows_and_pods(
    rows: list[dict[str, Any]], offered: list[tuple[int, bool]]
) -> None:
    with transaction.atomic():
        pods = []
        for number, row in enumerate(rows):
            changes: dict[str, Any] = {"deleted_at": Now()} if row["is_gone"] else {}
            if row["is_consumed"] and row["role"] == "stock":
                changes |= {"consumed_by": "u", "consumed_at": Now()}
            made: GpuUnit = (stock_row if row["role"] == "stock" else unit_row)(
                row["phase"], gpu=row["gpus"], **changes
            )
            uid = made.uid if row["is_labeled"] else ""
            pods.append(gpu_pod(f"p{number}", row["node"], row["gpus"], unit=uid))
        nodes = [
            node_manifest(f"n{number}", gpus, is_cordoned=is_cordoned)
            for number, (gpus, is_cordoned) in enumerate(offered, start=1)
        ]
        store(nodes, pods)

        found = capacity().products or ()
        assert all(map(adds_up, found))
        bound = sum(row["gpus"] for row in rows if row["node"])
        counted = sum(sum(one.gpus.values()) + one.excess for one in found)
        assert counted == bound
        transaction.set_rollback(True)
