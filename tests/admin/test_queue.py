"""The capacity queue in the admin, and the pages of units that wait."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.selectors import tenant_by_name
from tests.factories.admin_steps import address, choose, confirm, numbers, press, text_of
from tests.factories.unit_rows import catalogued, spec_row, unit_row
from tests.fakes.installed import broker, cluster
from units.models import CapacityRequest, GpuUnit
from units.phases import QUEUE_CAUSES, QueueCause, UnitPhase
from units.requests import GpuUnitCreate
from units.services.units import unit_create, unit_start
from units.waiting import hold_ends_at

__all__ = ["broker", "cluster"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("cluster")]

QUEUE = reverse("admin:units_capacityrequest_changelist")
UNITS = reverse("admin:units_activeunit_changelist")


def page(client: Client, url: str, **query: str) -> str:
    response = client.get(url, query)
    assert response.status_code == 200, response
    return response.content.decode()


def ask(name: str) -> None:
    body = {
        "operationID": f"create-{name}",
        "name": name,
        "specName": "g1.1",
        "image": "example.com/a:1",
        "wait": {"maxSeconds": 3600},
    }
    catalogued("g1.1")
    unit_create(tenant=tenant_by_name(), body=GpuUnitCreate.parse(body))


def test_the_queue_shows_position_cause_and_next_step(operator_client: Client) -> None:
    spec_row(is_top_up_paused=True)
    for name in ("one", "two"):
        ask(name)

    text = page(operator_client, QUEUE)

    explained = QUEUE_CAUSES[QueueCause.TOP_UP_PAUSED]
    assert text.index("<b>one</b>") < text.index("<b>two</b>")
    assert explained.meaning in text
    assert explained.next_step in text
    assert "create-two" in text


def test_an_empty_queue_explains_itself(operator_client: Client) -> None:
    assert "No request waits for stock." in page(operator_client, QUEUE)


def test_operators_cancel_requests_on_the_list(operator_client: Client) -> None:
    for name in ("one", "two", "three"):
        ask(name)
    rows = CapacityRequest.objects.filter(unit__name__in=("one", "two"))
    CapacityRequest.objects.filter(unit__name="one").update(hold_begun_at=Now(), count=4)

    asked = choose(operator_client, "cancel", *rows)
    confirm(operator_client, asked)

    consequence = asked.context["consequence"]
    assert numbers(consequence)[:3] == [5, 1, 2]  # stock units, holds, operations
    assert list(CapacityRequest.objects.filter(phase="Open").values_list("unit__name")) == [
        ("three",)
    ]
    cancelled = Operation.objects.filter(phase="Cancelled", kind="unit.create")
    assert set(cancelled.values_list("object_name", flat=True)) == {"one", "two"}


def test_only_those_who_cancel_operations_cancel_requests(client: Client) -> None:
    reader = User.objects.create_user("reader", is_staff=True)
    reader.user_permissions.add(Permission.objects.get(codename="view_activeunit"))
    client.force_login(reader)
    ask("one")
    row = CapacityRequest.objects.get()

    offered = page(client, QUEUE)
    body = {"_selected_action": row.pk}
    answer = client.post(address(row, "do", "cancel"), body)

    assert 'value="cancel"' not in offered
    assert answer.status_code == 403
    assert CapacityRequest.objects.get().phase == "Open"


def test_the_queue_shows_until_when_free_stock_is_held(operator_client: Client) -> None:
    ask("one")
    ask("two")
    CapacityRequest.objects.filter(unit__name="one").update(hold_begun_at=Now(), hold_times=2)
    unit = GpuUnit.objects.get(name="one")

    listed = text_of(page(operator_client, QUEUE))
    shown = page(operator_client, reverse("admin:units_activeunit_change", args=[unit.pk]))

    assert listed.count("old of free stock ends") == 1
    assert "old of free stock ends" in shown
    request = CapacityRequest.objects.get(unit=unit)
    assert request.hold_begun_at is not None
    assert hold_ends_at(request) == request.hold_begun_at + timedelta(minutes=40)


def test_a_row_leads_to_the_page_of_its_unit(operator_client: Client) -> None:
    ask("one")
    request = CapacityRequest.objects.get()

    answer = operator_client.get(reverse("admin:units_capacityrequest_change", args=[request.pk]))

    target = reverse("admin:units_activeunit_change", args=[request.unit_id])
    assert (answer.status_code, answer["Location"]) == (302, target)


def test_a_waiting_start_is_shown_on_the_list_and_the_page_of_the_unit(
    operator_client: Client,
) -> None:
    unit = unit_row(UnitPhase.STOPPED, name="trainer", is_suspended=True)
    unit_start(tenant=tenant_by_name(), name="trainer", operation_id="start-1")
    url = reverse("admin:units_activeunit_change", args=[unit.pk])

    listed, shown = page(operator_client, UNITS), page(operator_client, url)

    for text in (listed, shown):
        assert "Waiting for capacity" in text
    assert "Queue position" in shown
    assert "start-1" in shown
    assert GpuUnit.objects.get(pk=unit.pk).phase == UnitPhase.STOPPED


def test_the_tabs_count_a_waiting_start_as_waiting(operator_client: Client) -> None:
    unit_row(UnitPhase.STOPPED, name="stopped", is_suspended=True)
    unit_row(UnitPhase.STOPPED, name="trainer", is_suspended=True)
    unit_start(tenant=tenant_by_name(), name="trainer", operation_id="start-1")
    ask("one")

    def listed(tab: str) -> set[str]:
        text = page(operator_client, UNITS, phase=tab)
        return {name for name in ("stopped", "trainer", "one") if f">{name}</a>" in text}

    assert listed("WaitingForCapacity") == {"trainer", "one"}
    assert listed("Stopped") == {"stopped"}
    assert listed("Pending") == set()
    tabs = dict(re.findall(r'phase=(\w+)".*?<b>(\d+)</b>', page(operator_client, UNITS)))
    assert {name: tabs[name] for name in ("WaitingForCapacity", "Stopped", "Pending")} == {
        "WaitingForCapacity": "2",
        "Stopped": "1",
        "Pending": "0",
    }


def test_waiting_units_and_the_queue_show_priority_and_gpus(operator_client: Client) -> None:
    spec_row(gpu=4)
    ask("one")
    CapacityRequest.objects.update(priority=7, is_preemptible=True)
    unit = GpuUnit.objects.get(name="one")
    url = reverse("admin:units_activeunit_change", args=[unit.pk])

    listed, shown = page(operator_client, QUEUE), page(operator_client, url)

    assert "7, preemptible" in listed
    assert "7, preemptible" in shown
    assert re.search(r"<dt>GPUs</dt><dd><bdi>4", shown)
    assert unit.gpu == 0, "the GPUs of a waiting unit do not count for its tenant"


def test_operators_limit_the_priority_of_a_tenant(operator_client: Client) -> None:
    tenant = tenant_by_name()

    confirm(operator_client, press(operator_client, "limit", tenant, maxPriority="40"))

    tenant.refresh_from_db()
    assert tenant.max_priority == 40
    assert "400" in press(operator_client, "limit", tenant, maxPriority="400")
    tenant.refresh_from_db()
    assert tenant.max_priority == 40
