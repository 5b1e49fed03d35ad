"""A write of the admin without an operation and its audit entry are committed together.

The database rejects the entries, as it does when it stops between the two: nothing was written.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse

from gpuplatform.audit.models import AuditEntry
from gpuplatform.tenancy.models import ApiToken, Membership, Tenant, TenantLimit
from gpuplatform.tenancy.permissions import Role
from gpuplatform.tenancy.selectors import tenant_by_name
from tests.factories.admin_steps import confirm, press

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

PASSWORD = "another horse battery"
FULL = """
CREATE FUNCTION audit_is_full() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'no space'; END $$;
CREATE TRIGGER audit_full BEFORE INSERT ON audit_auditentry
    FOR EACH ROW EXECUTE FUNCTION audit_is_full()
"""
EMPTY = "DROP FUNCTION IF EXISTS audit_is_full() CASCADE"


def execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


@pytest.fixture
def full() -> Iterator[Callable[[], None]]:
    """Let the database reject all entries from now on."""
    yield lambda: execute(FULL)
    execute(EMPTY)


@pytest.fixture
def token() -> ApiToken:
    return ApiToken.objects.create(tenant=tenant_by_name(), name="ci", digest="d", scopes=["read"])


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada")


@pytest.fixture
def client(operator_client: Client) -> Client:
    operator_client.raise_request_exception = False
    return operator_client


def rejected(client: Client, address: str, body: dict[str, Any]) -> None:
    assert client.post(address, body).status_code == 500


def of_page(page: str) -> tuple[str, dict[str, Any]]:
    """Return the address and the fields of the form of a confirmation page."""
    sent: list[tuple[str, dict[str, Any]]] = []

    class Recorder:
        def post(self, address: str, body: dict[str, Any], **_: Any) -> Any:
            sent.append((address, body))
            raise StopIteration

    with pytest.raises(StopIteration):
        confirm(Recorder(), page)  # type: ignore[arg-type]  # a Client without its responses
    return sent[0]


def test_a_revoked_token(client: Client, token: ApiToken, full: Callable[[], None]) -> None:
    request = of_page(press(client, "revoke", token))
    full()

    rejected(client, *request)

    token.refresh_from_db()
    assert token.revoked_at is None


def test_changed_limits(client: Client, full: Callable[[], None]) -> None:
    request = of_page(press(client, "quota", tenant_by_name(), gpus="8"))
    full()

    rejected(client, *request)

    assert not TenantLimit.objects.exists()


def test_a_changed_priority_limit(client: Client, full: Callable[[], None]) -> None:
    before = tenant_by_name().max_priority
    request = of_page(press(client, "limit", tenant_by_name(), maxPriority=str(before + 1)))
    full()

    rejected(client, *request)

    assert tenant_by_name().max_priority == before


def test_a_password_of_another_user(client: Client, ada: User, full: Callable[[], None]) -> None:
    form = {"usable_password": "true", "password1": PASSWORD, "password2": PASSWORD}
    full()

    rejected(client, reverse("admin:auth_user_password_change", args=[ada.pk]), form)

    ada.refresh_from_db()
    assert not ada.check_password(PASSWORD)


def test_a_new_member(client: Client, ada: User, full: Callable[[], None]) -> None:
    form = {"tenant": tenant_by_name().pk, "user": ada.pk, "group": "", "role": Role.ADMIN}
    full()

    rejected(client, reverse("admin:tenancy_membership_add"), form)

    assert not Membership.objects.exists()


def test_deleted_rows_of_a_list(client: Client, ada: User, full: Callable[[], None]) -> None:
    execute(FULL.replace("audit_auditentry", "auth_user").replace("INSERT", "DELETE"))

    form = {"action": "delete_selected", "_selected_action": [ada.pk], "post": "yes"}
    rejected(client, reverse("admin:auth_user_changelist"), form)

    assert User.objects.filter(pk=ada.pk).exists()
    assert not AuditEntry.objects.exists()


def test_a_login(operator: User, password: str, full: Callable[[], None]) -> None:
    client = Client(raise_request_exception=False)
    full()

    form = {"username": "operator", "password": password}
    rejected(client, reverse("admin:login"), form)

    assert "_auth_user_id" not in client.session


def test_a_change_of_limits_has_both_values(operator_client: Client) -> None:
    tenant: Tenant = tenant_by_name()
    for gpus in ("8", "4"):
        confirm(operator_client, press(operator_client, "quota", tenant, gpus=gpus))
    confirm(operator_client, press(operator_client, "limit", tenant, maxPriority="7"))

    found = list(AuditEntry.objects.order_by("pk").values_list("verb", "tenant", "changes"))
    assert found == [
        ("quota", "default", [{"field": "limits.gpus", "to": 8}]),
        ("quota", "default", [{"field": "limits.gpus", "from": 8, "to": 4}]),
        ("limit", "default", [{"field": "maxPriority", "from": 0, "to": 7}]),
    ]
