"""The number of failed rows in the navigation of every page, from one query."""

import re

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from gpuplatform.adminkit.site import navigation
from gpuplatform.clock import now
from tests.factories.admin_rows import Rows
from tests.factories.unit_rows import stock_row, unit_row
from units.phases import UnitPhase

pytestmark = pytest.mark.django_db

GROUPS = reverse("admin:auth_group_changelist")


def counts(client: Client, address: str = GROUPS) -> dict[str, str]:
    """Return the numbers in the navigation by the names of their links."""
    page = client.get(address).content.decode()
    found = re.findall(r">([^<>]+)<b class=\"failed\" title=\"[^\"]+\">([^<]+)<", page)
    return dict(found)


def test_existing_failed_rows_are_counted_by_role(operator_client: Client, rows: Rows) -> None:
    rows.pool("Failed")
    rows.pool("Failed", deleted_at=now())
    rows.pool()
    for _ in range(2):
        unit_row(UnitPhase.FAILED)
    unit_row(UnitPhase.PROGRESSING)
    stock_row(UnitPhase.FAILED)

    assert counts(operator_client) == {"Stock pools": "1", "GPU units": "2", "Stock units": "1"}


def test_without_failures_no_number_is_shown(operator_client: Client) -> None:
    unit_row()

    assert counts(operator_client) == {}


def test_failures_are_counted_only_of_lists_that_the_user_may_view(rows: Rows) -> None:
    rows.pool("Failed")
    unit_row(UnitPhase.FAILED)
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_stockpool"))
    client = Client()
    client.force_login(viewer)

    found = counts(client, reverse("admin:inventory_stockpool_changelist"))

    assert found == {"Stock pools": "1"}


def test_counting_stops_at_the_cap_and_costs_one_query(
    operator_client: Client, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(navigation, "FAILED_CAP", 3)
    for _ in range(5):
        rows.pool("Failed")
        unit_row(UnitPhase.FAILED)

    with CaptureQueriesContext(
        connection,
    ) as asked:
        found = counts(operator_client)

    assert found == {"Stock pools": "3+", "GPU units": "3+"}
    assert sum("AS counted" in query["sql"] for query in asked.captured_queries) == 1
