"""Drains in the admin: the actions, their confirmations, and the progress on pages and lists."""

from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.selectors import tenant_by_name
from inventory.models import Node, NodeDrain
from inventory.requests.drains import NodeDrainBody
from inventory.services.drains import node_drain
from tests.admin.test_nodes import busy_node, cell, detail, fact, page
from tests.factories.admin_rows import Rows
from tests.factories.admin_steps import address, choose, confirm, numbers, press, text_of
from tests.factories.node_rows import node_row, pod_of
from tests.factories.unit_rows import spec_row, unit_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import cluster
from units.drain_states import DrainState
from units.models import ActiveUnit, GpuUnit

__all__ = ["cluster"]

LIST = reverse("admin:inventory_node_changelist")

pytestmark = pytest.mark.django_db


def drained(row: Node, **fields: Any) -> NodeDrain:
    """Request a drain of a node whose cordon is in the mirror."""
    body = NodeDrainBody.parse({"operationID": f"drain-{row.pk}", **fields})
    node_drain(tenant=tenant_by_name(), name=row.name, body=body)
    Node.objects.filter(pk=row.pk).update(is_schedulable=False)
    return NodeDrain.objects.get(node=row.name)


def test_a_drain_states_its_effects_in_numbers_and_names_the_owners(
    operator_client: Client, rows: Rows, cluster: FakeCluster
) -> None:
    row = busy_node(rows)

    question = press(operator_client, "drain", row, units="stop", noticeMinutes="45")
    confirm(operator_client, question)

    text = question.context["consequence"]
    assert numbers(text) == [1, 2, 1, 45, 2]
    assert "trainer (tenant default)" in text
    operation = Operation.objects.latest("id")
    assert (operation.kind, operation.object_name) == ("node.drain", row.name)
    assert operation.payload == {"units": "stop", "noticeMinutes": 45}
    assert NodeDrain.objects.get().operation == operation


def test_a_drain_keeps_units_by_default_and_names_the_topped_up_stock(
    operator_client: Client, rows: Rows, cluster: FakeCluster
) -> None:
    row = busy_node(rows)
    spec_row(warm_target=1)
    workers = unit_row(name="fn-1")
    GpuUnit.objects.filter(pk=workers.pk).update(spec={"serverless": {}})
    Node.objects.filter(pk=row.pk).update(
        holders=row.holders + node_row("x", pods=[pod_of(workers)]).holders
    )

    form = press(operator_client, "drain", row)
    question = confirm(operator_client, form, units="keep")

    text = question.context["consequence"]
    assert numbers(text.replace("g1.1", "")) == [1, 2, 1, 1, 2]
    assert "g1.1" in text


def test_a_stop_without_a_notice_is_an_error_of_the_field(
    operator_client: Client, rows: Rows, cluster: FakeCluster
) -> None:
    row = busy_node(rows)

    form = press(operator_client, "drain", row, units="stop")

    assert set(form.context["form"].errors) == {"noticeMinutes"}
    assert not Operation.objects.filter(kind="node.drain").exists()


def test_the_page_and_the_list_show_the_progress(
    operator_client: Client, rows: Rows, cluster: FakeCluster
) -> None:
    row = busy_node(rows)
    drain = drained(row, units="stop", noticeMinutes=30)

    found, html = detail(operator_client, row), page(operator_client, LIST, state="draining")

    assert text_of(cell(html, "state")) == "Draining"
    assert numbers(text_of(cell(html, "note"))) == [1, 2]
    assert found.panel.title == "Draining: moving stock"
    assert numbers(found.panel.text) == [1, 2]
    assert (fact(found, "Units left"), fact(found, "Stock left")) == ("1", "2")
    [left] = [one for one in found.related if one.title == "Units left by the drain"]
    unit = ActiveUnit.objects.get(name="trainer")
    assert [(one.name, one.url, one.text) for one in left.rows] == [
        ("trainer", address(unit, "change", unit.pk), "tenant default")
    ]
    of_unit = operator_client.get(address(unit, "change", unit.pk)).context["detail"]
    assert drain.deadline is not None
    assert f"{drain.deadline:%Y-%m-%d %H:%M}" in fact(of_unit, "Notice")


def test_a_drained_node_has_its_own_badge(operator_client: Client, cluster: FakeCluster) -> None:
    row = node_row()
    drained(row)

    assert text_of(cell(page(operator_client, LIST), "state")) == "Drained"
    assert detail(operator_client, row).panel.title == "Drained"


def test_a_node_that_is_not_ready_keeps_its_badge(
    operator_client: Client, cluster: FakeCluster
) -> None:
    row = node_row(pods=[pod_of(unit_row())])
    drained(row)
    Node.objects.update(is_ready=False)

    html = page(operator_client, LIST)

    assert text_of(cell(html, "state")) == "Not ready"
    assert "draining" in cell(html, "note")


def test_a_cancellation_states_its_effects_and_ends_the_drain(
    operator_client: Client, rows: Rows, cluster: FakeCluster
) -> None:
    row = busy_node(rows)
    drained(row, units="stop", noticeMinutes=30)

    question = press(operator_client, "canceldrain", row)
    confirm(operator_client, question)

    assert numbers(question.context["consequence"]) == [1, 1, 1]
    assert Operation.objects.latest("id").kind == "node.cancel-drain"
    assert not NodeDrain.objects.exists()


def test_units_that_are_being_stopped_are_not_kept_by_a_cancellation(
    operator_client: Client, rows: Rows, cluster: FakeCluster
) -> None:
    row = busy_node(rows)
    drained(row, units="stop", noticeMinutes=30)
    NodeDrain.objects.update(deadline=Now())

    question = press(operator_client, "canceldrain", row)

    assert numbers(question.context["consequence"]) == [1, 0, 1]
    assert DrainState.STOPPING_UNITS.explanation.meaning in detail(operator_client, row).panel.text


@pytest.mark.parametrize(
    ("action", "changes"), [("drain", {"is_present": False}), ("canceldrain", {})]
)
def test_an_action_without_effect_is_not_offered(
    operator_client: Client, action: str, changes: dict[str, Any]
) -> None:
    row = node_row(**changes)

    page_of_node = operator_client.get(address(row, "change", row.pk))
    fields = {"units": "keep", "submitted": "1"} if action == "drain" else {}
    question = (
        press(operator_client, action, row, **fields)
        if fields
        else choose(operator_client, action, row)
    )

    offered = [one["url"] for one in page_of_node.context["row_actions"]]
    assert address(row, "do", action) not in offered
    assert question.context["impossible_count"] == 1
