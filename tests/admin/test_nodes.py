"""Nodes in the admin: GPUs as squares, states, the pods that hold GPUs, and cordons."""

import re
from collections import Counter
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from gpuplatform.adminkit.display.badges import Shape
from gpuplatform.adminkit.display.squares import MAX_SQUARES
from gpuplatform.operations.models import Operation
from gpuplatform.workloads.causes import NODE_CAUSES, StartupCause
from gpuplatform.workloads.resources import GPU_RESOURCE
from inventory.models import Node
from tests.factories.admin_rows import Rows
from tests.factories.admin_steps import address, choose, confirm, numbers, press, text_of
from tests.factories.node_rows import node_row, pod_of
from tests.factories.unit_rows import stock_row, unit_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import cluster
from units.models import ActiveUnit, StockUnit
from units.phases import UnitPhase, UnitReason

__all__ = ["cluster"]

LIST = reverse("admin:inventory_node_changelist")
UNITS = reverse("admin:units_activeunit_changelist")
MOST_QUERIES = 12
SLICE = "nvidia.com/mig-1g.10gb"

pytestmark = pytest.mark.django_db


def page(client: Client, url: str, **query: str) -> str:
    response = client.get(url, query)
    assert response.status_code == 200, response
    return response.content.decode()


def detail(client: Client, row: Node) -> Any:
    return client.get(address(row, "change", row.pk)).context["detail"]


def fact(found: Any, label: str) -> str:
    return next((str(one.value) for one in found.facts if one.label == label), "")


def squares(html: str) -> Counter[str]:
    """Return the number of squares by class."""
    return Counter(re.findall(r'<i class="seg-([a-z_ ]+)"></i>', html))


def cell(html: str, name: str) -> str:
    [found] = re.findall(rf'<td class="field-{name}[^"]*">(.*?)</td>', html, re.DOTALL)
    return str(found)


def busy_node(rows: Rows, **changes: Any) -> Node:
    """Insert a node with a unit, ready and withheld stock, a pool and another program."""
    withheld = {"reason": UnitReason.STOCK_WITHHELD}
    holders = [
        pod_of(unit_row(name="trainer", gpu=2), 2),
        pod_of(stock_row(name="stock-a")),
        pod_of(stock_row(UnitPhase.PROGRESSING, name="stock-b", **withheld)),
        pod_of(rows.pool(name="batch-pool")),
        pod_of(None),
    ]
    return node_row(pods=holders, **changes)


# The list


def test_the_list_shows_each_gpu_by_its_use(operator_client: Client, rows: Rows) -> None:
    busy_node(rows)

    html = page(operator_client, LIST)

    found = cell(html, "squares")
    assert squares(found) == {
        "active": 2,
        "ready": 1,
        "withheld": 1,
        "held_by_pools": 1,
        "others": 1,
        "free": 2,
    }
    titles = re.findall(r'title="([^"]+)"', found)
    assert [title.split(",")[0] for title in titles] == [
        "GPU unit trainer of tenant default",
        "Stock pool batch-pool of tenant default",
        "Pod batch/train-0",
        "Stock unit stock-a",
        "Stock unit stock-b",
        "2 free",
    ]
    assert numbers(cell(html, "free")) == [2, 8]
    assert numbers(cell(html, "largest")) == [2]


@pytest.mark.parametrize(
    ("changes", "state", "value"),
    [
        ({}, "Ready", "ready"),
        ({"is_schedulable": False}, "Cordoned", "cordoned"),
        ({"is_ready": False}, "Not ready", "notready"),
        ({"pressures": ["DiskPressure"]}, "Under pressure", "pressure"),
        ({"is_present": False}, "Deleted", "deleted"),
    ],
)
def test_the_state_of_a_node_is_shown_and_a_filter(
    operator_client: Client, changes: dict[str, Any], state: str, value: str
) -> None:
    node_row("wanted", **changes)
    others: dict[str, dict[str, Any]] = {"other-1": {}, "other-2": {"is_schedulable": False}}
    for name, other in others.items():
        if other != changes:
            node_row(name, **other)

    html = page(operator_client, LIST, state=value)

    assert text_of(cell(html, "state")) == state
    assert re.findall(r">(wanted|other-\d)</a>", html) == ["wanted"]


def test_a_node_that_accepts_no_pods_has_no_free_block(operator_client: Client) -> None:
    node_row(is_schedulable=False, is_ready=False, pressures=["MemoryPressure"])

    html = page(operator_client, LIST)

    assert numbers(cell(html, "free")) == [8, 8]
    assert numbers(cell(html, "largest")) == [0]
    note = text_of(cell(html, "note"))
    assert note == "cordoned · MemoryPressure"


def test_lost_gpus_are_marked(operator_client: Client) -> None:
    holders = [pod_of(unit_row(), 2), pod_of(stock_row(), 2)]
    node_row(gpus=3, pods=holders, capacity={GPU_RESOURCE: "4"})

    html = page(operator_client, LIST)

    assert squares(cell(html, "squares")) == {
        "active": 2,
        "ready": 1,
        "ready missing": 1,
        "unavailable": 1,
    }
    assert numbers(cell(html, "note")) == [1, 1]


def test_each_resource_has_its_own_squares(operator_client: Client) -> None:
    offered = {GPU_RESOURCE: "1", SLICE: "7"}
    holders = [pod_of(None, 3, resource=SLICE)]
    node_row(capacity=offered, allocatable=offered, pods=holders)

    html = page(operator_client, LIST)

    assert squares(cell(html, "squares")) == {"others": 3, "free": 5}
    assert "<small>mig-1g.10gb</small>" in html
    lines = re.findall(r'<span class="line">(.*?)</span>', cell(html, "free"))
    assert list(map(numbers, lines)) == [[1, 1], [4, 7]]


def test_many_gpus_are_a_bar(operator_client: Client) -> None:
    node_row(gpus=MAX_SQUARES + 1, pods=[pod_of(None, 5)])

    html = page(operator_client, LIST)

    assert not squares(html)
    assert re.findall(r'<rect class="seg-(others|free)"', cell(html, "squares")) == [
        "others",
        "free",
    ]


def test_a_node_without_gpus_has_none(operator_client: Client) -> None:
    node_row(capacity={"cpu": "4"}, allocatable={"cpu": "4"}, product="")

    html = page(operator_client, LIST)

    assert not squares(html)
    assert 'class="none"' in cell(html, "squares")


def test_nodes_are_found_by_product_and_by_the_global_search(operator_client: Client) -> None:
    node_row("wanted", product="L40S")
    node_row("other")

    of_product = page(operator_client, LIST, product="L40S")
    found = operator_client.get(reverse("admin:search"), {"q": "wanted"}).context["found"]

    assert ">wanted</a>" in of_product
    assert ">other</a>" not in of_product
    assert [[row.name for row in one.rows] for one in found] == [["wanted"]]


def test_names_of_other_programs_are_escaped(operator_client: Client, hostile_text: str) -> None:
    row = node_row(pods=[pod_of(None, name=hostile_text[:200])])

    for html in (
        page(operator_client, LIST),
        page(operator_client, address(row, "change", row.pk)),
    ):
        assert "<script>alert" not in html
        assert "\u202e" not in html


# The page


def test_the_page_links_the_holders_of_the_gpus(operator_client: Client, rows: Rows) -> None:
    row = busy_node(rows)

    found = detail(operator_client, row)

    assert found.panel is None
    pods, _operations = found.related
    assert [one.name for one in pods.rows] == [
        "trainer",
        "batch-pool",
        "batch/train-0",
        "stock-a",
        "stock-b",
    ]
    unit = ActiveUnit.objects.get(name="trainer")
    assert pods.rows[0].url == address(unit, "change", unit.pk)
    assert pods.rows[2].url == ""
    pod = f"pod {unit.namespace}/trainer-7d9c"
    assert pods.rows[0].text.split(" · ") == ["2 GPUs", "tenant default", "GPU spec g1.1", pod]
    links = re.findall(r'<a href="([^"]+)"', fact(found, "GPUs"))
    assert links == [one.url for one in pods.rows if one.url]
    assert squares(fact(found, "GPUs")) == squares(page(operator_client, LIST))
    assert fact(found, "Largest free block") == "2"


@pytest.mark.parametrize(
    ("changes", "cause", "shape"),
    [
        ({"is_schedulable": False}, StartupCause.NODE_CORDONED, Shape.WAITING),
        ({"is_ready": False}, StartupCause.NODE_NOT_READY, Shape.FAILED),
        ({"is_present": False}, StartupCause.NODE_MISSING, Shape.WAITING),
        ({"pressures": ["PIDPressure"]}, StartupCause.NODE_UNDER_PRESSURE, Shape.WAITING),
        ({"gpus": 1}, StartupCause.GPUS_MISSING, Shape.FAILED),
    ],
)
def test_the_page_explains_the_problem_of_a_node(
    operator_client: Client, changes: dict[str, Any], cause: StartupCause, shape: Shape
) -> None:
    row = node_row(pods=[pod_of(unit_row(), 2)], **changes)

    panel = detail(operator_client, row).panel

    assert (panel.title, panel.shape) == (NODE_CAUSES[cause].title, shape)
    assert panel.next_step == NODE_CAUSES[cause].next_step


def test_a_taint_of_gpu_nodes_is_a_fact_and_no_problem(operator_client: Client) -> None:
    taints = [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/memory-pressure", "value": "", "effect": "PreferNoSchedule"},
    ]
    row = node_row(taints=taints)

    found = detail(operator_client, row)

    assert found.panel is None
    assert fact(found, "Taints") == "nvidia.com/gpu=present:NoSchedule"


# Cordon and uncordon


def test_a_cordon_states_its_effects_and_is_an_operation(
    operator_client: Client, rows: Rows, cluster: FakeCluster
) -> None:
    row = busy_node(rows)

    question = press(operator_client, "cordon", row)
    before = Operation.objects.count()
    confirm(operator_client, question)

    assert numbers(question.context["consequence"]) == [1, 2, 1, 1, 1, 2]
    assert Operation.objects.count() == before + 1
    operation = Operation.objects.latest("id")
    assert (operation.kind, operation.object_kind, operation.object_name) == (
        "node.cordon",
        "Node",
        row.name,
    )
    assert operation.object_row == row.pk


def test_an_uncordon_states_its_effects_and_is_an_operation(
    operator_client: Client, rows: Rows, cluster: FakeCluster
) -> None:
    row = busy_node(rows, is_schedulable=False)

    question = press(operator_client, "uncordon", row)
    confirm(operator_client, question)

    assert numbers(question.context["consequence"]) == [1, 2, 1]
    operation = Operation.objects.latest("id")
    assert (operation.kind, operation.object_name) == ("node.uncordon", row.name)


@pytest.mark.parametrize(
    ("action", "changes"),
    [
        ("cordon", {"is_schedulable": False}),
        ("cordon", {"is_present": False}),
        ("uncordon", {}),
        ("uncordon", {"is_present": False, "is_schedulable": False}),
    ],
)
def test_an_action_without_effect_is_not_offered(
    operator_client: Client, action: str, changes: dict[str, Any]
) -> None:
    row = node_row(**changes)

    page_of_node = operator_client.get(address(row, "change", row.pk))
    question = choose(operator_client, action, row)

    offered = [one["url"] for one in page_of_node.context["row_actions"]]
    assert address(row, "do", action) not in offered
    assert question.context["impossible_count"] == 1
    assert not question.context["lines"]


# Units and stock


@pytest.mark.parametrize("model", [ActiveUnit, StockUnit])
def test_units_and_stock_show_their_node_and_tenant(operator_client: Client, model: Any) -> None:
    create = unit_row if model is ActiveUnit else stock_row
    node = node_row("gpu-node-1")
    tenant = unit_row(name="elsewhere", node="gpu-node-2").tenant
    unit = model.objects.get(pk=create(name="wanted", node="gpu-node-1", tenant=tenant).pk)
    stock_row(name="other", node="gpu-node-2")

    html = page(operator_client, address(unit, "changelist"), node="gpu-node-1")

    link = f'<a href="{address(node, "change", node.pk)}">gpu-node-1</a>'
    assert cell(html, "node_column") == link
    assert cell(html, "tenant_column") == "default"
    assert re.findall(r">(wanted|elsewhere|other)</a>", html) == ["wanted"]
    found = operator_client.get(address(unit, "change", unit.pk)).context["detail"]
    [value] = [one for one in found.facts if one.label == "Node"]
    assert (value.value, value.url) == ("gpu-node-1", address(node, "change", node.pk))


def test_a_node_that_is_unknown_is_no_link(operator_client: Client) -> None:
    unit_row(node="gone")

    assert cell(page(operator_client, UNITS), "node_column") == "gone"


# Costs


def test_the_number_of_queries_does_not_depend_on_the_nodes(
    operator_client: Client, rows: Rows, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    busy_node(rows)
    for number in range(2, 60):
        node_row(f"gpu-node-{number}", pods=[pod_of(None, name=f"train-{number}")])

    with django_assert_max_num_queries(MOST_QUERIES):
        html = page(operator_client, LIST)

    assert len(re.findall(r'class="gpus"', html)) == 50


def test_a_page_costs_few_queries(
    operator_client: Client, rows: Rows, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    row = busy_node(rows)

    with django_assert_max_num_queries(MOST_QUERIES):
        page(operator_client, address(row, "change", row.pk))
