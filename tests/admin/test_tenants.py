"""The usage of tenants, with links to the lists."""

import re

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from gpuplatform.clock import now
from gpuplatform.operations import driver
from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.selectors import tenant_by_name
from tests.factories.admin_steps import address, confirm, press, text_of
from tests.factories.limits import limit_all
from tests.factories.unit_rows import stock_row, unit_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import cluster
from units.phases import UnitPhase

__all__ = ["cluster"]

LIST = reverse("admin:tenancy_tenant_changelist")
UNITS = reverse("admin:units_activeunit_changelist")
MOST_QUERIES = 12

pytestmark = pytest.mark.django_db


def some_units() -> None:
    unit_row(gpu=2)
    unit_row(UnitPhase.FAILED, gpu=1)
    unit_row(UnitPhase.STOPPED, gpu=4)
    unit_row(gpu=8, deleted_at=now())
    stock_row(gpu=16)


def test_the_list_shows_units_failures_and_gpus(operator_client: Client) -> None:
    some_units()
    Tenant.objects.create(name="team-b", namespace="team-b")

    page = operator_client.get(LIST).content.decode()

    assert re.findall(r'field-(?:units|gpus)">(\d+)<', page) == ["3", "3", "0", "0"]
    assert re.search(
        r'<td class="field-failed"><span class="phase failed">.*?</svg>1</span>', page
    )


def test_gpus_of_another_resource_are_shown_separately(operator_client: Client) -> None:
    some_units()
    unit_row(gpu=7, resource_name="nvidia.com/mig-1g.10gb")

    page = operator_client.get(LIST).content.decode()

    assert re.findall(r'field-(?:units|gpus)">([^<]+)<', page) == [
        "4",
        "3 \u00b7 7 nvidia.com/mig-1g.10gb",
    ]


def test_its_page_links_to_its_rows_and_failed_rows(operator_client: Client) -> None:
    some_units()
    tenant = tenant_by_name()

    page = operator_client.get(address(tenant, "change", tenant.pk)).content.decode()

    assert f'<a href="{UNITS}?tenant=default">3</a>' in page
    assert f'<a href="{UNITS}?tenant=default&amp;phase=Failed">1 failed</a>' in page
    assert "GPUs held3" in text_of(page)


def test_without_the_permission_no_usage_is_shown() -> None:
    some_units()
    person = User.objects.create_user("anna", is_staff=True)
    person.user_permissions.add(Permission.objects.get(codename="view_tenant"))
    client = Client()
    client.force_login(person)

    page = client.get(address(tenant_by_name(), "change", tenant_by_name().pk)).content.decode()

    assert "GPUs held" not in page
    assert UNITS not in page
    assert not re.search(r'field-(?:units|failed|gpus)">\d', client.get(LIST).content.decode())


def test_the_pages_cost_few_queries(
    operator_client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    some_units()
    for number in range(20):
        Tenant.objects.create(name=f"team-{number}", namespace=f"team-{number}")

    for path in (LIST, address(tenant_by_name(), "change", tenant_by_name().pk)):
        with django_assert_max_num_queries(MOST_QUERIES):
            operator_client.get(path)


def acted(client: Client, action: str, row: Tenant, **values: str) -> str:
    """Confirm an action on a tenant, and return the text of the confirmation."""
    page = press(client, action, row, **values)
    confirm(client, page)
    return text_of(page)


def created(client: Client, name: str = "acme") -> Tenant:
    values = {"name": name, "weight": "2", "key": "admin-" + "1" * 32}
    response = client.post(reverse("admin:tenancy_tenant_add"), values)
    assert response.status_code == 302, text_of(response.content.decode())
    row = Tenant.objects.get(name=name)
    driver.run(Operation.objects.get(object_row=row.pk, kind="tenant.create").pk)
    row.refresh_from_db()
    return row


def test_a_tenant_is_created_and_changed(operator_client: Client, cluster: FakeCluster) -> None:
    row = created(operator_client)
    assert (row.phase, row.weight, row.namespace) == ("Active", 2, "tenant-acme")

    acted(operator_client, "settings", row, weight="5", displayName="ACME")

    row.refresh_from_db()
    assert (row.weight, row.display_name) == (5, "ACME")


def test_a_reserved_namespace_is_an_error_at_the_field(
    operator_client: Client, cluster: FakeCluster
) -> None:
    values = {"name": "acme", "namespace": "default", "key": "admin-" + "1" * 32}

    response = operator_client.post(reverse("admin:tenancy_tenant_add"), values)

    assert response.context["form"].errors.keys() == {"namespace"}
    assert not Tenant.objects.filter(name="acme").exists()


def test_a_suspension_states_what_it_stops(operator_client: Client, cluster: FakeCluster) -> None:
    row = created(operator_client)
    unit_row(gpu=2, tenant=row, namespace=row.namespace)
    unit_row(UnitPhase.STOPPED, gpu=4, tenant=row, namespace=row.namespace)

    page = acted(operator_client, "suspend", row)

    assert "Stops 1 GPU unit of 'acme' and releases 2 GPUs." in page
    row.refresh_from_db()
    assert row.phase == "Suspended"
    acted(operator_client, "resume", row)
    row.refresh_from_db()
    assert row.phase == "Active"


def test_a_tenant_with_objects_is_not_deleted(
    operator_client: Client, cluster: FakeCluster
) -> None:
    row = created(operator_client)
    unit = unit_row(tenant=row, namespace=row.namespace)
    assert "'acme' has 1 GPU unit" in acted(operator_client, "delete", row)
    row.refresh_from_db()
    assert row.phase == "Active"
    unit.delete()

    acted(operator_client, "delete", row)

    row.refresh_from_db()
    assert row.phase == "Deleting"


def test_the_default_tenant_offers_no_suspension(
    operator_client: Client, cluster: FakeCluster
) -> None:
    page = operator_client.get(address(tenant_by_name(), "change", tenant_by_name().pk))

    assert [one["label"] for one in page.context["row_actions"]] == [
        *("Change limits", "Limit priority", "Change settings"),
    ]


def test_its_page_shows_each_limit_as_a_bar(operator_client: Client) -> None:
    tenant = tenant_by_name()
    limit_all(tenant, {"gpus": 4, "gpus.g1.1": 8, "units": 1})
    unit_row(gpu=1, gpus_seen=1)
    unit_row(gpu=2, gpus_seen=2, is_suspended=True)

    page = operator_client.get(address(tenant, "change", tenant.pk)).content.decode()

    bars = re.findall(r'<svg class="bar"[^>]*aria-label="([^"]+)"', page)
    assert bars == [
        "3 of 4 used, 2 being released",
        "3 of 8 used, 2 being released",
        "2 of 1 used",
    ]
    kinds = re.findall(r'<rect class="seg-(\w+)"[^>]*><title>', page)
    assert kinds == ["active", "deleting", "free", "active", "deleting", "free", "active"]


def test_the_limits_are_changed_with_a_form(operator_client: Client) -> None:
    tenant = tenant_by_name()
    limit_all(tenant, {"gpus": 4, "units": 1})

    form = press(operator_client, "quota", tenant)
    assert form.context["form"]["gpus"].value() == 4
    confirm(
        operator_client, press(operator_client, "quota", tenant, gpus="2", specs='{"g1.1": 1}')
    )

    found = dict(tenant.limits.values_list("resource", "hard"))
    assert found == {"gpus": 2, "gpus.g1.1": 1}
    rejected = press(operator_client, "quota", tenant, gpus="-1", specs='{"a b": 1}')
    assert {"gpus", "specs"} <= set(rejected.context["form"].errors)
    assert dict(tenant.limits.values_list("resource", "hard")) == found
