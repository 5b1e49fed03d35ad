"""The global search by name, operationID, image or UID."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from gpuplatform.clock import now
from gpuplatform.tenancy.models import Tenant
from inventory.models import GpuSpec, Node
from tests.factories.admin_rows import Rows
from tests.factories.node_rows import node_row
from tests.factories.serverless import accept, function_row
from tests.factories.unit_rows import spec_row, stock_row, unit_row
from tests.fakes.installed import cluster

__all__ = ["cluster"]

SEARCH = reverse("admin:search")

pytestmark = pytest.mark.django_db


def found(client: Client, text: str) -> list[str]:
    """Return the models of the results, in the order of the page."""
    response = client.get(SEARCH, {"q": text})
    assert response.status_code == 200
    page = response.content.decode().partition('class="search filters"')[2]
    return re.findall(r'<a href="/admin/[a-z_]+/([a-z]+)/[0-9]+/change/"', page)


def test_a_part_of_a_name_finds_rows_of_every_list(operator_client: Client, rows: Rows) -> None:
    rows.pool(name="needle-pool")
    stock_row(name="needle-stock")
    unit_row(name="needle-unit")
    spec_row("needle")
    rows.operation(operation_id="needle-job")
    Tenant.objects.create(name="needle", namespace="needle")

    kinds = ["activeunit", "stockunit", "stockpool", "gpuspec", "operation", "tenant"]

    assert found(operator_client, "needle") == kinds
    assert found(operator_client, "haystack") == []


def test_image_uid_and_operation_id_find_the_unit(operator_client: Client, rows: Rows) -> None:
    job = rows.operation(operation_id="of-the-caller", object_name="x")
    unit = unit_row(image="registry.example.com/special:1", operation=job)

    assert found(operator_client, "special:1") == ["activeunit"]
    assert found(operator_client, unit.uid) == ["activeunit"]
    assert set(found(operator_client, "of-the-caller")) == {"activeunit", "operation"}


def test_an_exact_name_is_first(operator_client: Client) -> None:
    exact = unit_row(name="many-1")
    for number in range(10, 18):
        unit_row(name=f"many-{number}")

    page = operator_client.get(SEARCH, {"q": "many-1"}).content.decode()

    lines = re.findall('<a href="/admin/units/activeunit/([0-9]+)/change/"', page)
    assert lines[0] == str(exact.pk)
    assert len(lines) == len(set(lines)) == 6


def test_the_newest_matches_are_shown_and_the_list_has_all(operator_client: Client) -> None:
    for number in range(8):
        unit_row(name=f"many-{number}")

    (result,) = operator_client.get(SEARCH, {"q": "many"}).context["found"]

    names = [line.name.rpartition("/")[2] for line in result.rows]
    assert names == [f"many-{number}" for number in range(7, 1, -1)]
    assert result.url == "/admin/units/activeunit/?q=many&history=all"
    assert result.has_more


def test_lists_without_permission_are_not_searched(db: None) -> None:
    looker = User.objects.create_user("looker", is_staff=True)
    looker.user_permissions.add(Permission.objects.get(codename="view_activeunit"))
    client = Client()
    client.force_login(looker)
    unit_row(name="both")
    stock_row(name="both")

    assert found(client, "both") == ["activeunit"]


@pytest.mark.parametrize("text", ["", "\x00", "%", "it's", "x" * 5000])
def test_any_query_has_a_response(operator_client: Client, text: str) -> None:
    unit_row()

    assert found(operator_client, text) == []


@pytest.mark.usefixtures("cluster")
def test_matches_in_all_lists_cost_few_queries(
    admin_client: Client, rows: Rows, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    rows.pool(name="needle-pool")
    rows.operation(operation_id="needle-job")
    for rank in range(3):
        unit_row(name=f"needle-{rank}", group_name="needle", group_rank=rank)
        stock_row(name=f"needle-{rank}")
    spec_row("needle")
    node_row("needle-node")
    tenant = Tenant.objects.create(name="needle", namespace="needle")
    accept(function_row("needle-function", tenant=tenant), invocationID="needle-call")
    admin_client.get(SEARCH)

    with django_assert_max_num_queries(11):
        kinds = found(admin_client, "needle")
    with django_assert_max_num_queries(11):
        assert set(found(admin_client, "need le")) == set(kinds)

    assert set(kinds) == {
        *("activeunit", "stockunit", "stockpool", "gpuspec", "operation", "unitgroup"),
        *("tenant", "function", "invocation", "node"),
    }
    assert kinds.count("activeunit") == kinds.count("stockunit") == 3
    assert kinds.count("unitgroup") == 1


def test_it_costs_few_queries(
    operator_client: Client, rows: Rows, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    rows.pool(name="needle-pool")
    rows.operation(operation_id="needle-job")
    for rank in range(3):
        unit_row(name=f"needle-{rank}", group_name="needle", group_rank=rank)
        stock_row(name=f"needle-{rank}")
    for number in range(2):
        unit_row(name=f"needle-of-{number}", group_name=f"needle-{number}", group_rank=0)
    spec_row("needle")
    operator_client.get(SEARCH)

    with django_assert_max_num_queries(12):
        kinds = found(operator_client, "needle")
    assert set(kinds) == {
        *("activeunit", "stockunit", "stockpool", "gpuspec", "operation", "unitgroup"),
    }
    with django_assert_max_num_queries(5):
        assert found(operator_client, "haystack") == []


def test_lists_without_a_query_for_their_rows_have_the_same_lines(operator_client: Client) -> None:
    at = now() - timedelta(seconds=330)
    names = {"name": "needle", "namespace": "of-needle"}
    Tenant.objects.create(**names, phase="Suspended", created_at=at)
    spec_row("needle", description="Needles.", is_enabled=False, updated_at=at)
    node_row("needle", is_ready=False, changed_at=at)

    results = operator_client.get(SEARCH, {"q": "needle"}).context["found"]

    pages: list[Any] = [admin.site.get_model_admin(model) for model in (GpuSpec, Tenant, Node)]
    assert all(page.line_fields for page in pages)
    rows = [page.model.objects.get(name="needle") for page in pages]
    expected = [page.line(row) for page, row in zip(pages, rows, strict=True)]
    assert [line for result in results for line in result.rows] == expected
