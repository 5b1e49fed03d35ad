"""The navigation says on every page how much has failed, for one query."""

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
    """Return the numbers of the navigation by the names that they stand beside."""
    page = client.get(address).content.decode()
    found = re.findall(r">([^<>]+)<b class=\"failed\" title=\"[^\"]+\">([^<]+)<", page)
    return dict(found)


def test_what_has_failed_and_is_there_is_counted_by_role(
    operator_client: Client, rows: Rows
) -> None:
    rows.pool("Failed")
    rows.pool("Failed", deleted_at=now())
    rows.pool()
    for _ in range(2):
        unit_row(UnitPhase.FAILED)
    unit_row(UnitPhase.PROGRESSING)
    stock_row(UnitPhase.FAILED)

    assert counts(operator_client) == {"Stock pools": "1", "GPU units": "2", "Stock units": "1"}


def test_where_nothing_has_failed_there_is_no_number(operator_client: Client) -> None:
    unit_row()

    assert counts(operator_client) == {}


def test_nobody_learns_how_much_has_failed_of_what_they_may_not_see(rows: Rows) -> None:
    rows.pool("Failed")
    unit_row(UnitPhase.FAILED)
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_stockpool"))
    client = Client()
    client.force_login(viewer)

    found = counts(client, reverse("admin:inventory_stockpool_changelist"))

    assert found == {"Stock pools": "1"}


def test_very_many_are_not_counted_to_the_end_and_cost_one_query(
    operator_client: Client, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(navigation, "MAX_FAILED", 3)
    for _ in range(5):
        rows.pool("Failed")
        unit_row(UnitPhase.FAILED)

    with CaptureQueriesContext(
        connection,
    ) as asked:
        found = counts(operator_client)

    assert found == {"Stock pools": "3+", "GPU units": "3+"}
    assert sum("AS counted" in query["sql"] for query in asked.captured_queries) == 1
