"""What is not there, or not allowed: said within the admin, with a way on."""

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from tests.factories.admin_steps import told

POOLS = reverse("admin:inventory_stockpool_changelist")
GONE = reverse("admin:inventory_stockpool_change", args=[999])
NEW_POOL = reverse("admin:inventory_stockpool_add")
NEW_TENANT = reverse("admin:tenancy_tenant_add")

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> Client:
    person = User.objects.create_user("vera", is_staff=True)
    person.groups.add(Group.objects.get(name="viewer"))
    client = Client()
    client.force_login(person)
    return client


def test_what_is_gone_leads_to_its_list(operator_client: Client) -> None:
    answer = operator_client.get(GONE)
    page = answer.content.decode()

    assert answer.status_code == 404
    assert "There is nothing here" in page
    assert f'<a href="{POOLS}">Stock pools</a>' in page
    assert 'aria-label="Main"' in page


def test_who_is_refused_reads_who_they_are_and_who_can_change_it(viewer: Client) -> None:
    answer = viewer.get(NEW_POOL)

    assert answer.status_code == 403
    page = told(answer.content.decode())
    assert "You may not see this" in page
    assert "You are 'vera', in viewer." in page
    assert "Whoever may change users and groups can give you the right." in page
    assert "You may not do this" in told(viewer.post(NEW_POOL).content.decode())


def test_what_nobody_makes_is_not_said_to_want_a_right(
    viewer: Client, operator_client: Client
) -> None:
    for client in (viewer, operator_client):
        answer = client.get(NEW_TENANT)

        assert answer.status_code == 403
        assert "Tenants are not made here." in told(answer.content.decode())
        assert "can give you the right" not in answer.content.decode()


@pytest.mark.parametrize("path", ["/nowhere", "/favicon.ico"])
def test_outside_the_admin_nobody_is_looked_up(
    operator_client: Client, django_assert_num_queries: DjangoAssertNumQueries, path: str
) -> None:
    with django_assert_num_queries(0):
        answer = operator_client.get(path)

    assert answer.status_code == 404
    assert "There is nothing here" in answer.content.decode()
