"""The list of unit changes."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from gpuplatform.clock import now
from tests.factories.admin_rows import Rows
from tests.factories.unit_rows import stock_row, unit_row
from units.models import GpuUnit, UnitHistory

URL = reverse("admin:units_unithistory_changelist")
pytestmark = pytest.mark.django_db


def page(client: Client, **query: str) -> str:
    response = client.get(URL, query)
    assert response.status_code == 200, response
    return response.content.decode()


def change(unit: GpuUnit, phase: str = "Failed", **fields: object) -> UnitHistory:
    return UnitHistory.objects.create(unit=unit, phase=phase, **fields)


def test_a_change_shows_phase_unit_message_and_operation(
    operator_client: Client, rows: Rows
) -> None:
    unit = unit_row(name="trainer")
    job = rows.operation(operation_id="caused-it")
    change(unit, reason="PodStartupFailed", message="manifest unknown", operation=job)

    text = page(operator_client)

    assert '<span class="phase failed"><svg' in text
    assert f"/activeunit/{unit.pk}/change/" in text
    assert f"/operation/{job.pk}/change/" in text
    assert ">manifest unknown" in text


@pytest.mark.parametrize(
    "query",
    [
        {"q": "train"},
        {"q": "CAUSED"},
        {"phase": "Failed"},
        {"reason": "PodStartupFailed"},
        {"age": "1h"},
    ],
    ids=["unit", "operationID", "phase", "reason", "age"],
)
def test_changes_are_found_by(operator_client: Client, rows: Rows, query: dict[str, str]) -> None:
    job = rows.operation(operation_id="caused-it")
    change(unit_row(name="trainer"), reason="PodStartupFailed", operation=job)
    old = now() - timedelta(days=2)
    change(unit_row(name="other"), "Ready", reason="UnitReady", at=old)

    text = page(operator_client, **query)

    assert "trainer" in text
    assert "runtime-pools/other" not in text
    assert "runtime-instance/other" not in text


def test_changes_are_limited_to_permitted_roles() -> None:
    viewer = User.objects.create_user("only-stock", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_stockunit"))
    client = Client()
    client.force_login(viewer)
    change(unit_row(name="of-a-tenant"))
    change(stock_row(name="in-stock"))

    text = page(client)

    assert "in-stock" in text
    assert "of-a-tenant" not in text


def test_without_permission_for_units_the_history_is_rejected(viewer_client: Client) -> None:
    assert viewer_client.get(URL).status_code == 403


def test_a_change_links_to_the_page_of_its_unit(operator_client: Client) -> None:
    row = change(unit := unit_row())

    response = operator_client.get(reverse("admin:units_unithistory_change", args=[row.pk]))

    assert response.headers["Location"].endswith(f"/activeunit/{unit.pk}/change/")


def test_the_number_of_queries_does_not_depend_on_the_rows(
    operator_client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(12):
        change(unit_row())

    with django_assert_max_num_queries(12):
        page(operator_client, q="unit", phase="Failed")
