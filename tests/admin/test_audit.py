"""The audit log in the admin: its pages, and the entries of logins, forms and actions."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django_celery_beat.models import PeriodicTask

from gpuplatform.adminkit.site import throttle
from gpuplatform.adminkit.site.login_log import LogIn, record_login
from gpuplatform.audit.models import AuditEntry, Outcome
from gpuplatform.audit.services import anonymous
from gpuplatform.audit.services.entries import Entry, entry_insert
from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import ApiToken, Membership
from gpuplatform.tenancy.permissions import Role
from gpuplatform.tenancy.selectors import tenant_by_name
from tests.admin.conftest import PASSWORD
from tests.factories.admin_rows import Rows
from tests.factories.admin_steps import confirm, press
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import cluster

__all__ = ["cluster"]

pytestmark = pytest.mark.django_db

LIST = reverse("admin:audit_auditentry_changelist")
EXPORT = reverse("admin:audit_auditentry_entries")


def columns(*names: str) -> list[tuple[Any, ...]]:
    return list(AuditEntry.objects.order_by("pk").values_list(*names))


def inserted(name: str = "trainer", **fields: Any) -> AuditEntry:
    values = {
        "outcome": Outcome.ACCEPTED,
        "verb": "update",
        "kind": "GPUUnit",
        "tenant": "default",
    }
    entry_insert(Entry(**{**values, "name": name, **fields}))
    return AuditEntry.objects.latest("pk")


def test_logins_have_entries_with_the_name_and_the_address(operator: User, password: str) -> None:
    throttle._PROCESS.reset()
    anonymous._LIMITER.reset()
    for given in ("wrong-canary", password):
        form = {"username": "operator", "password": given}
        Client().post("/admin/login/", form, REMOTE_ADDR="198.51.100.7")
    record_login(LogIn.REJECTED, "operator\x00", "198.51.100.8")

    names = ("outcome", "verb", "code", "object_name", "actor", "address")
    assert columns(*names) == [
        ("rejected", "login", "login_failed", "operator", "", "198.51.100.7"),
        ("accepted", "login", "", "operator", "admin user 'operator'", "198.51.100.7"),
        ("rejected", "login", "login_rejected", "operator\ufffd", "", "198.51.100.8"),
    ]
    assert "canary" not in str(list(AuditEntry.objects.values()))


def test_an_action_with_an_operation_has_only_the_entry_of_the_operation(
    operator_client: Client, operator: User, cluster: FakeCluster, rows: Rows
) -> None:
    pool = rows.pool()

    page = press(operator_client, "scale", pool, replicas="4")
    confirm(operator_client, page)
    confirm(operator_client, page)

    [operation] = Operation.objects.filter(kind="stockpool.update")
    names = ("outcome", "verb", "object_kind", "object_name", "operation_id", "actor", "actor_id")
    user = ("admin user 'operator'", str(operator.pk))
    expected = ("accepted", "update", "StockPool", pool.name, operation.operation_id, *user)
    assert columns(*names) == [expected]
    change = {"field": "replicas", "from": 2, "to": 4}
    assert change in AuditEntry.objects.get().changes


def test_an_action_without_an_operation_has_one_entry(operator_client: Client, rows: Rows) -> None:
    token = ApiToken.objects.create(
        tenant=tenant_by_name(), name="ci", digest="d", scopes=["read"]
    )

    page = press(operator_client, "revoke", token)
    confirm(operator_client, page)
    confirm(operator_client, page)

    names = ("outcome", "verb", "object_kind", "object_name", "tenant")
    assert columns(*names) == [("accepted", "revoke", "Token", "ci", "default")]


def test_an_action_that_is_rejected_has_an_entry_with_the_code(
    operator_client: Client, cluster: FakeCluster, rows: Rows
) -> None:
    pool = rows.pool()
    page = press(operator_client, "scale", pool, replicas="4")
    type(pool).objects.filter(pk=pool.pk).update(deletion_requested_at="2026-12-01T00:00:00Z")

    confirm(operator_client, page)

    names = ("outcome", "verb", "code", "object_kind", "object_name")
    assert columns(*names) == [("rejected", "scale", "phase_conflict", "StockPool", pool.name)]


def test_forms_have_entries_without_passwords(operator_client: Client, operator: User) -> None:
    add = reverse("admin:auth_user_add")
    passwords = {"usable_password": "true", "password1": PASSWORD, "password2": PASSWORD}

    operator_client.post(add, {"username": "ada", **passwords})
    ada = User.objects.get(username="ada")
    operator_client.post(reverse("admin:auth_user_delete", args=[ada.pk]), {"post": "yes"})

    names = ("outcome", "verb", "object_kind", "object_name", "actor_id")
    assert columns(*names) == [
        ("accepted", "create", "User", "ada", str(operator.pk)),
        ("accepted", "delete", "User", "ada", str(operator.pk)),
    ]
    assert PASSWORD not in str(list(AuditEntry.objects.values()))


def test_a_changed_form_has_both_values_of_its_fields(
    operator_client: Client, operator: User
) -> None:
    ada = User.objects.create_user("ada")
    row = Membership.objects.create(tenant=tenant_by_name(), user=ada, role=Role.VIEWER)
    address = reverse("admin:tenancy_membership_change", args=[row.pk])
    form = {"tenant": row.tenant_id, "user": ada.pk, "group": "", "role": Role.ADMIN}

    response = operator_client.post(address, form)

    assert response.status_code == 302, response.context["adminform"].form.errors
    assert columns("verb", "object_kind", "tenant") == [("update", "Member", "default")]
    assert AuditEntry.objects.get().changes == [{"field": "role", "from": "viewer", "to": "admin"}]


@pytest.mark.parametrize("action", ["enable", "disable"])
def test_a_switched_schedule_has_an_entry(operator_client: Client, action: str) -> None:
    task = PeriodicTask.objects.get(name="Seal audit entries")
    form = {"action": action, "_selected_action": [task.pk]}

    operator_client.post(reverse("admin:django_celery_beat_periodictask_changelist"), form)

    assert columns("verb", "object_kind", "object_name") == [(action, "PeriodicTask", task.name)]


def test_only_users_with_the_permission_read_and_export_the_log(viewer_client: Client) -> None:
    entry = inserted()
    pages = (LIST, EXPORT, reverse("admin:audit_auditentry_change", args=[entry.pk]))

    assert [viewer_client.get(page).status_code for page in pages] == [403, 403, 403]


def test_an_export_with_an_unknown_filter_leads_to_the_list(operator_client: Client) -> None:
    response = operator_client.get(EXPORT, {"nope": "1"})

    assert (response.status_code, response.headers["Location"]) == (302, f"{LIST}?nope=1")


def test_a_page_that_the_user_may_not_open_has_an_entry(viewer_client: Client) -> None:
    assert viewer_client.get(LIST).status_code == 403

    names = ("outcome", "code", "verb", "object_kind", "object_name", "actor")
    viewer = "admin user 'viewer'"
    assert columns(*names) == [("rejected", "forbidden", "read", "AdminPage", LIST, viewer)]


def test_the_list_shows_filters_and_exports_entries(operator_client: Client) -> None:
    inserted("<b>unit</b>", changes=[{"field": f"f{n}", "to": n} for n in range(5)])
    inserted("other", tenant="alpha", outcome=Outcome.REJECTED, code="quota_exceeded")

    shown = operator_client.get(LIST).content.decode()
    only = operator_client.get(LIST, {"tenant": "alpha", "outcome": "rejected"}).content.decode()
    found = operator_client.get(LIST, {"q": "other"}).content.decode()
    export: Any = operator_client.get(EXPORT, {"tenant": "alpha"})
    lines = b"".join(export.streaming_content)

    assert "&lt;b&gt;unit" in shown
    assert "f0, f1, f2 and 2 more" in shown
    assert 'href="/admin/audit/auditentry/entries.csv"' in shown.replace(".csv?", ".csv")
    for page in (only, found):
        assert "quota_exceeded" in page
        assert "unit&lt;" not in page
    rows = lines.decode().splitlines()
    assert ["quota_exceeded" in row for row in rows] == [False, True, False]
    assert columns("outcome", "verb", "tenant")[-1] == ("read", "export", "alpha")


def test_the_page_of_an_entry_shows_the_changes_and_cannot_change_it(
    operator_client: Client,
) -> None:
    entry = inserted(changes=[{"field": "image", "from": "a:1", "to": "a:2"}])
    address = reverse("admin:audit_auditentry_change", args=[entry.pk])

    page = operator_client.get(address)

    assert page.status_code == 200
    text = page.content.decode()
    for shown in ("trainer", "GPUUnit", "a:1", "a:2", f"{LIST}?q=trainer"):
        assert shown in text
    assert operator_client.post(address, {"verb": "x"}).status_code == 403
    assert operator_client.get(reverse("admin:audit_auditentry_add")).status_code == 403


def test_the_page_of_an_object_has_a_link_to_its_entries(
    operator_client: Client, viewer_client: Client, rows: Rows
) -> None:
    pool = rows.pool()
    address = reverse("admin:inventory_stockpool_change", args=[pool.pk])

    assert f"{LIST}?q={pool.name}" in operator_client.get(address).content.decode()
    assert LIST not in viewer_client.get(address).content.decode()


def test_the_page_of_a_tenant_has_a_link_to_its_entries(operator_client: Client) -> None:
    tenant = tenant_by_name()

    page = operator_client.get(reverse("admin:tenancy_tenant_change", args=[tenant.pk]))

    assert f"{LIST}?tenant={tenant.name}" in page.content.decode()
