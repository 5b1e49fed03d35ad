"""The audit entries of logins to the admin, of passwords and of the rights of accounts."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from gpuplatform.adminkit.site import throttle
from gpuplatform.audit.models import AuditEntry
from gpuplatform.audit.services import anonymous
from gpuplatform.settings.oidc import Provider as Configured
from tests.admin.conftest import PASSWORD
from tests.fakes.oidc_provider import CLIENT_ID, CLIENT_SECRET, Provider, oidc_provider, parameters

pytestmark = pytest.mark.django_db

NEW_PASSWORD = "another horse battery"
ADDRESS = "198.51.100.7"
NAMES = ("outcome", "verb", "code", "object_kind", "object_name", "actor", "address")


@pytest.fixture(autouse=True)
def _unlimited() -> None:
    throttle._PROCESS.reset()
    anonymous._LIMITER.reset()


@pytest.fixture
def provider(settings: Settings) -> Iterator[Provider]:
    with oidc_provider() as running:
        settings.OIDC = Configured(
            issuer=running.issuer,
            client_id=CLIENT_ID,
            client_secret=CLIENT_SECRET,
            scopes="openid profile",
            groups_claim="groups",
            staff_groups=(("gpu-ops", "operator"),),
        )
        yield running


def columns(*names: str) -> list[tuple[Any, ...]]:
    return list(AuditEntry.objects.order_by("pk").values_list(*names))


def log_in_with_provider(provider: Provider, state: str = "") -> None:
    client = Client(REMOTE_ADDR=ADDRESS)
    sent = parameters(client.get(reverse("oidc-start"))["Location"])
    provider.nonce = sent["nonce"]
    client.get(reverse("oidc-callback"), {"code": "code-1", "state": state or sent["state"]})


def test_a_login_through_the_provider_has_an_entry(provider: Provider) -> None:
    log_in_with_provider(provider)

    user = ("User", "ada", "admin user 'ada'", ADDRESS)
    assert columns(*NAMES) == [("accepted", "login", "", *user)]


def test_an_invalid_login_through_the_provider_has_an_entry(provider: Provider) -> None:
    log_in_with_provider(provider, state="forged")

    assert columns(*NAMES) == [("rejected", "login", "login_failed", "User", "", "", ADDRESS)]


def test_a_user_of_the_provider_without_access_has_an_entry(provider: Provider) -> None:
    provider.claims = {"groups": []}

    log_in_with_provider(provider)

    assert columns(*NAMES) == [("rejected", "login", "login_failed", "User", "ada", "", ADDRESS)]


def test_failed_logins_of_one_address_cannot_fill_the_log(
    operator: User, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anonymous.OF_ADDRESS, "amount", 2)

    for given in ("a", "b", "c", password):
        form = {"username": "operator", "password": given}
        Client().post(reverse("admin:login"), form, REMOTE_ADDR=ADDRESS)

    assert columns("outcome") == [("rejected",), ("rejected",), ("accepted",)]


def test_the_addresses_of_a_network_of_ipv6_are_one_client(
    operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle.FAILURES_OF_PAIR, "amount", 2)
    monkeypatch.setattr(anonymous.OF_ADDRESS, "amount", 3)

    for number in range(1, 6):
        form = {"username": "operator", "password": "wrong"}
        Client().post(reverse("admin:login"), form, REMOTE_ADDR=f"2001:db8::{number}")

    assert columns("code", "address") == [
        ("login_failed", "2001:db8::1"),
        ("login_failed", "2001:db8::2"),
        ("login_rejected", "2001:db8::3"),
    ]


@pytest.mark.parametrize(("is_right", "expected"), [(True, 1), (False, 0)])
def test_a_change_of_the_own_password_has_an_entry(
    operator: User, password: str, is_right: bool, expected: int
) -> None:
    client = Client()
    client.force_login(operator)
    old = password if is_right else "wrong"
    form = {"old_password": old, "new_password1": NEW_PASSWORD, "new_password2": NEW_PASSWORD}

    client.post(reverse("admin:password_change"), form)

    operator.refresh_from_db()
    assert operator.check_password(NEW_PASSWORD) is is_right
    entry = ("accepted", "update", "User", "operator", "admin user 'operator'")
    names = ("outcome", "verb", "object_kind", "object_name", "actor")
    assert columns(*names) == [entry] * expected
    assert "horse" not in str(list(AuditEntry.objects.values()))


def test_a_change_of_another_users_password_has_an_entry(operator_client: Client) -> None:
    ada = User.objects.create_user("ada")
    form = {"usable_password": "true", "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}

    operator_client.post(reverse("admin:auth_user_password_change", args=[ada.pk]), form)

    ada.refresh_from_db()
    assert ada.check_password(NEW_PASSWORD)
    assert columns("verb", "object_kind", "object_name") == [("update", "User", "ada")]
    assert AuditEntry.objects.get().changes == [{"field": "password"}]
    assert PASSWORD not in str(list(AuditEntry.objects.values()))
    assert NEW_PASSWORD not in str(list(AuditEntry.objects.values()))


def test_a_change_of_the_rights_of_a_user_has_both_values(operator_client: Client) -> None:
    ada = User.objects.create_user("ada")
    group = Group.objects.get(name="operator")
    address = reverse("admin:auth_user_change", args=[ada.pk])
    form = {"username": "ada", "is_active": "on", "is_staff": "on", "groups": [group.pk]}

    response = operator_client.post(address, form)

    assert response.status_code == 302
    assert AuditEntry.objects.get().changes == [
        {"field": "is_staff", "from": False, "to": True},
        {"field": "groups", "to": ["operator"]},
    ]
