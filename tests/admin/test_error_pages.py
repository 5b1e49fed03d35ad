"""Error pages: with the navigation in the admin, without a query elsewhere."""

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from gpuplatform.adminkit.site import errors

POOLS = reverse("admin:inventory_stockpool_changelist")
GONE = reverse("admin:inventory_stockpool_change", args=[999])
NEW_POOL = reverse("admin:inventory_stockpool_add")
NEW_UNIT = reverse("admin:units_activeunit_add")

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> Client:
    person = User.objects.create_user("vera", is_staff=True)
    person.groups.add(Group.objects.get(name="viewer"))
    client = Client()
    client.force_login(person)
    return client


def test_a_missing_row_leads_to_its_list(operator_client: Client) -> None:
    response = operator_client.get(GONE)
    page = response.content.decode()

    assert response.status_code == 404
    assert f'<a href="{POOLS}">Stock pools</a>' in page
    assert 'aria-label="Main"' in page


def test_a_missing_permission_shows_user_and_groups(viewer: Client) -> None:
    response = viewer.get(NEW_POOL)

    assert response.status_code == 403
    account, advice = response.context["texts"]
    assert "'vera'" in account
    assert "viewer" in account
    assert advice == errors.ASK_FOR_ACCESS
    assert viewer.post(NEW_POOL).status_code == 403


def test_a_kind_that_cannot_be_created_needs_no_permission(
    viewer: Client, operator_client: Client
) -> None:
    for client in (viewer, operator_client):
        response = client.get(NEW_UNIT)

        assert response.status_code == 403
        assert len(response.context["texts"]) == 1
        assert errors.ASK_FOR_ACCESS not in response.context["texts"]


@pytest.mark.parametrize("path", ["/nowhere", "/favicon.ico"])
def test_an_error_outside_of_the_admin_costs_no_query(
    operator_client: Client, django_assert_num_queries: DjangoAssertNumQueries, path: str
) -> None:
    with django_assert_num_queries(0):
        response = operator_client.get(path)

    assert response.status_code == 404
    assert [template.name for template in response.templates][:1] == ["404.html"]
