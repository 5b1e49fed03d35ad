"""The groups of units in the admin: list, page, queue, and deletion."""

import pytest
from django.db.models import F
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.selectors import tenant_by_name
from tests.factories.admin_steps import address, choose, confirm
from tests.factories.unit_rows import catalogued, stock_row
from tests.fakes.installed import broker, cluster
from units.admin.actions import UNIT_ACTIONS
from units.group_members import members_live
from units.models import CapacityRequest, GpuUnit, UnitGroup
from units.requests import UnitGroupCreate
from units.selectors import units_live
from units.services.groups import group_create

__all__ = ["broker", "cluster"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("cluster")]

GROUPS = reverse("admin:units_unitgroup_changelist")
QUEUE = reverse("admin:units_capacityrequest_changelist")


def page(client: Client, url: str, **query: str) -> str:
    response = client.get(url, query)
    assert response.status_code == 200, response
    return response.content.decode()


def ask(name: str = "team", size: int = 3) -> Operation:
    body = {
        "operationID": f"create-{name}",
        "name": name,
        "size": size,
        "unit": {"specName": "g1.1", "image": "example.com/a:1"},
        "wait": {"maxSeconds": 3600},
    }
    catalogued("g1.1")
    return group_create(tenant=tenant_by_name(), body=UnitGroupCreate.parse(body)).operation


def first(name: str) -> UnitGroup:
    return UnitGroup.objects.get(name=f"{name}-0")


def test_the_list_has_one_row_for_each_group(operator_client: Client) -> None:
    ask("team")
    ask("other", size=2)

    text = page(operator_client, GROUPS)

    assert text.count("field-name_column") == 2
    assert "0 of 3" in text
    assert "0 of 2" in text
    found = page(operator_client, GROUPS, q="tea")
    assert "<b>team</b>" in found
    assert "<b>other</b>" not in found


def test_the_page_of_a_group_shows_its_units_and_its_place(operator_client: Client) -> None:
    operation = ask()

    text = page(operator_client, address(first("team"), "change", first("team").pk))

    for name in ("team-0", "team-1", "team-2", "Queue position", operation.operation_id):
        assert name in text
    job = reverse("admin:operations_operation_change", args=[operation.pk])
    assert address(first("team"), "change", first("team").pk) in page(operator_client, job)


def test_the_page_of_a_deleted_group_still_shows_its_units(operator_client: Client) -> None:
    ask()
    row = first("team")
    GpuUnit.objects.filter(group_name="team").update(phase="Terminating", deleted_at=Now())
    ask("team-2", size=2)

    text = page(operator_client, address(row, "change", row.pk))

    assert "Deleted" in text
    for name in ("team-0", "team-1", "team-2"):
        assert name in text
    assert "<b>team</b>" not in page(operator_client, GROUPS)


def test_the_page_of_a_unit_links_to_its_group_and_shows_its_place(
    operator_client: Client,
) -> None:
    ask()
    unit = units_live().get(name="team-2")

    text = page(operator_client, reverse("admin:units_activeunit_change", args=[unit.pk]))

    assert address(first("team"), "change", first("team").pk) in text
    assert "rank 2" in text
    assert "Queue position" in text
    assert "Waiting for capacity" in text


def test_the_queue_shows_a_group_as_one_request(operator_client: Client) -> None:
    ask()

    text = page(operator_client, QUEUE)

    assert text.count("field-unit_column") == 1
    assert "team (3 units)" in text


def test_the_page_of_a_failed_group_shows_its_first_failed_unit(operator_client: Client) -> None:
    ask()
    CapacityRequest.objects.update(phase="Closed")
    GpuUnit.objects.filter(group_name="team").update(phase="Ready", uid=F("name"))
    for rank in (2, 1):
        GpuUnit.objects.filter(name=f"team-{rank}").update(
            phase="Failed",
            reason="PodStartupFailed",
            cause="ImagePullFailed",
            message=f"image {rank} not found",
        )

    text = page(operator_client, address(first("team"), "change", first("team").pk))

    panel = text.partition('aria-label="Reason"')[2].partition("</section>")[0]
    assert "Image pull failed" in panel
    assert "team-1&#x27;: image 1 not found" in panel
    assert "1 further unit failed." in panel
    assert "Fix the image name or tag" in panel
    assert "image 2" not in panel


def test_the_page_of_an_incomplete_group_shows_what_is_missing(operator_client: Client) -> None:
    ask()
    CapacityRequest.objects.update(phase="Closed")
    GpuUnit.objects.filter(group_name="team").update(phase="Ready", uid=F("name"))
    url = address(first("team"), "change", first("team").pk)
    assert 'aria-label="Reason"' not in page(operator_client, url)

    GpuUnit.objects.filter(name="team-1").update(phase="Stopped")
    assert "Of 3 units, team-1 is stopped." in page(operator_client, url)
    assert "Stop the group and start it again." in page(operator_client, url)

    GpuUnit.objects.filter(name="team-2").update(deleted_at=Now())
    assert "Of 3 units, 1 unit does not exist and team-1 is stopped." in page(operator_client, url)
    assert "Delete the group and create it again." in page(operator_client, url)


def test_a_group_is_stopped_and_started_with_all_of_its_units(operator_client: Client) -> None:
    ask()
    CapacityRequest.objects.update(phase="Closed")
    rows = GpuUnit.objects.filter(group_name="team")
    rows.update(phase="Ready", uid=F("name"), gpu=1)
    row = first("team")

    asked = choose(operator_client, "stop", row)
    confirm(operator_client, asked)
    assert "Stops 1 group with 3 units and releases 3 GPUs" in asked
    assert Operation.objects.filter(kind="unit.stop").count() == 3
    assert "It is running." in choose(operator_client, "start", row)

    Operation.objects.update(phase="Succeeded", due_at=None, ended_at=Now())
    rows.update(phase="Stopped", is_suspended=True)
    for _ in range(3):
        stock_row()
    asked = choose(operator_client, "start", row)
    confirm(operator_client, asked)
    assert "claims 3 GPUs of stock" in asked
    assert GpuUnit.objects.filter(claimed_by__kind="unit.start").count() == 3
    assert "already stopped" in choose(operator_client, "stop", row)


def test_a_group_is_deleted_with_all_of_its_units(operator_client: Client) -> None:
    for _ in range(3):
        stock_row()
    ask()
    row = first("team")

    asked = choose(operator_client, "delete", row)
    confirm(operator_client, asked)

    assert "1 group with 3 units" in asked
    assert Operation.objects.filter(kind="group.delete").count() == 1
    members = members_live(row.namespace, "team")
    assert set(members.values_list("phase", flat=True)) == {"Terminating"}


def test_a_unit_of_a_group_is_not_changed_alone() -> None:
    ask()
    unit = units_live().get(name="team-1")
    unit.waits_since = None

    obstacles = {one.name: one.obstacle(unit) for one in UNIT_ACTIONS}

    assert {name for name, text in obstacles.items() if "'team'" in text} == {
        "stop",
        "start",
        "delete",
    }
