"""The login to the admin through OpenID Connect, with a provider on loopback."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from gpuplatform.settings.environment import Environment
from gpuplatform.settings.oidc import Provider as Configured
from gpuplatform.tenancy.models import Identity, Tenant
from gpuplatform.tenancy.permissions import Role
from gpuplatform.tenancy.selectors import role_of, tenant_by_name
from gpuplatform.tenancy.services import member_set
from tests.fakes.oidc_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    FOREIGN_KEY,
    Provider,
    oidc_provider,
    parameters,
)

START, CALLBACK = reverse("oidc-start"), reverse("oidc-callback")
PAST, FUTURE = 1_700_000_000, 4_000_000_000
LOGIN, INDEX = reverse("admin:login"), reverse("admin:index")

pytestmark = pytest.mark.django_db


@pytest.fixture
def provider(settings: Settings) -> Iterator[Provider]:
    with oidc_provider() as running:
        settings.OIDC = Configured(
            issuer=running.issuer,
            client_id=CLIENT_ID,
            client_secret=CLIENT_SECRET,
            scopes="openid profile",
            groups_claim="groups",
            staff_groups=(("gpu-ops", "operator"), ("gpu-admins", "admin")),
        )
        yield running


def begin(client: Client, provider: Provider, **query: str) -> dict[str, str]:
    """Start a login, and return the parameters of the redirect to the provider."""
    response = client.get(START, query)
    assert response.status_code == 302
    assert response["Location"].startswith(f"{provider.issuer}/authorize?")
    found = parameters(response["Location"])
    provider.nonce = found["nonce"]
    return found


def finish(client: Client, state: str) -> Any:
    return client.get(CALLBACK, {"code": "code-1", "state": state})


def log_in(provider: Provider, client: Client | None = None, **query: str) -> Any:
    client = client or Client()
    return finish(client, begin(client, provider, **query)["state"])


def is_rejected(response: Any) -> bool:
    is_back = response.status_code == 302 and response["Location"] == LOGIN
    return is_back and "_auth_user_id" not in response.client.session


def test_a_user_of_a_mapped_group_logs_in(provider: Provider) -> None:
    client = Client()

    sent = begin(client, provider, next="/admin/units/activeunit/")
    response = finish(client, sent["state"])

    assert response["Location"] == "/admin/units/activeunit/"
    user = User.objects.get()
    assert (user.username, user.is_staff, user.is_superuser) == ("ada", True, False)
    assert not user.has_usable_password()
    assert [group.name for group in user.groups.all()] == ["operator"]
    assert client.get(INDEX).status_code == 200
    assert sent["code_challenge_method"] == "S256"
    assert provider.requests[0]["code_verifier"]
    assert sent["redirect_uri"].endswith(CALLBACK)


def test_the_same_subject_is_the_same_user_and_a_taken_name_is_another(provider: Provider) -> None:
    local = User.objects.create_superuser("ada")

    log_in(provider)
    log_in(provider)
    provider.claims = {"sub": "subject-2"}
    log_in(provider)

    names = sorted(User.objects.values_list("username", flat=True))
    assert names[0] == "ada"
    assert [name.partition("-")[0] for name in names] == ["ada"] * 3
    assert not Identity.objects.filter(user=local).exists()
    assert User.objects.filter(is_superuser=True).get() == local


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another-client"},
        {"aud": None},
        {"aud": ["another-client", "third"]},
        {"iss": "https://another.example.com"},
        {"iss": None},
        {"exp": PAST},
        {"exp": None},
        {"iat": FUTURE},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "x" * 256},
        {"azp": "another-client"},
    ],
    ids=str,
)
def test_an_invalid_id_token_is_rejected(provider: Provider, claims: dict[str, Any]) -> None:
    provider.claims = claims

    assert is_rejected(log_in(provider))
    assert not User.objects.exists()


def test_a_signature_of_another_key_is_rejected(provider: Provider) -> None:
    provider.key = FOREIGN_KEY

    assert is_rejected(log_in(provider))


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_a_token_without_an_asymmetric_signature_is_rejected(
    provider: Provider, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client()
    state = begin(client, provider)["state"]
    _, payload, _ = provider.id_token().split(".")
    header = base64.urlsafe_b64encode(json.dumps({"alg": algorithm, "kid": "1"}).encode())
    forged = f"{header.decode().rstrip('=')}.{payload}."
    monkeypatch.setattr(Provider, "id_token", lambda _: forged)

    assert is_rejected(finish(client, state))


def test_the_state_must_be_of_the_session_and_is_used_once(provider: Provider) -> None:
    client = Client()
    state = begin(client, provider)["state"]

    assert is_rejected(finish(Client(), state))
    assert is_rejected(finish(client, "another"))
    assert is_rejected(client.get(CALLBACK))
    assert not is_rejected(finish(client, state))
    client.logout()
    assert is_rejected(finish(client, state))


def test_an_error_of_the_provider_is_rejected(provider: Provider) -> None:
    client = Client()
    state = begin(client, provider)["state"]

    response = client.get(CALLBACK, {"error": "access_denied", "state": state})

    assert is_rejected(response)


@pytest.mark.parametrize("groups", [[], ["unknown"], "gpu-ops", None, {"gpu-ops": 1}, [7]])
def test_without_a_mapped_group_the_admin_is_closed(provider: Provider, groups: object) -> None:
    provider.claims = {"groups": groups}

    response = log_in(provider)

    assert is_rejected(response)
    assert "ada" in str(next(iter(get_messages(response.wsgi_request))))
    user = User.objects.get()
    assert (user.is_staff, user.groups.exists()) == (False, False)


def test_a_later_login_changes_the_groups_that_are_mapped_only(provider: Provider) -> None:
    log_in(provider)
    user = User.objects.get()
    user.groups.add(Group.objects.create(name="night shift"), Group.objects.get(name="viewer"))

    provider.claims = {"groups": ["gpu-admins"]}
    log_in(provider)
    assert set(user.groups.values_list("name", flat=True)) == {"admin", "night shift", "viewer"}

    provider.claims = {"groups": []}
    assert not is_rejected(log_in(provider))
    assert set(user.groups.values_list("name", flat=True)) == {"night shift", "viewer"}


def test_a_group_claim_gives_the_role_of_its_membership(provider: Provider) -> None:
    tenant = tenant_by_name()
    other = Tenant.objects.create(name="beta", namespace="tenant-beta")
    member_set(tenant=tenant, user=None, group="ml", role=Role.MEMBER)
    member_set(tenant=other, user=None, group="admins", role=Role.ADMIN)
    provider.claims = {"groups": ["ml", "x" * 151]}

    log_in(provider)

    user = User.objects.get()
    assert (role_of(user, tenant), role_of(user, other)) == (Role.MEMBER, None)
    assert user.identity.groups == ["ml"]
    provider.claims = {"groups": []}
    log_in(provider)
    assert role_of(User.objects.get(), tenant) is None


def test_a_disabled_user_cannot_log_in(provider: Provider) -> None:
    log_in(provider)
    User.objects.update(is_active=False)

    assert is_rejected(log_in(provider))


@pytest.mark.parametrize("address", ["https://evil.example.com/", "//evil.example.com", "x:y"])
def test_the_next_page_is_on_this_site(provider: Provider, address: str) -> None:
    assert log_in(provider, next=address)["Location"] == INDEX


@pytest.mark.parametrize(
    "broken",
    [
        {"status": 500},
        {"metadata": {"issuer": "https://another.example.com"}},
        {"metadata": {"authorization_endpoint": None}},
    ],
    ids=str,
)
def test_a_provider_that_cannot_be_used_closes_only_its_login(
    provider: Provider, broken: dict[str, Any]
) -> None:
    vars(provider).update(broken)

    response = Client().get(START)

    assert is_rejected(response)


def test_the_login_page_links_to_the_provider_only_if_it_is_configured(
    provider: Provider, settings: Settings
) -> None:
    assert START in Client().get(LOGIN).content.decode()

    settings.OIDC = None

    assert START not in Client().get(LOGIN).content.decode()
    assert Client().get(START).status_code == 404
    assert Client().get(CALLBACK).status_code == 404


def test_a_local_account_still_logs_in(provider: Provider, password: str) -> None:
    response = Client().post(LOGIN, {"username": "operator", "password": password})

    assert response["Location"] == INDEX


@pytest.mark.parametrize(
    "given",
    [
        {"gpuplatform_oidc_issuer": "http://idp.example.com"},
        {"gpuplatform_oidc_issuer": "https://idp.example.com?x=1"},
        {"gpuplatform_oidc_client_id": ""},
        {"gpuplatform_oidc_client_secret": ""},
        {"gpuplatform_oidc_staff_groups": "gpu-ops"},
        {"gpuplatform_oidc_staff_groups": "gpu-ops=superuser"},
    ],
    ids=str,
)
def test_invalid_settings_are_rejected(given: dict[str, str]) -> None:
    valid = {
        "gpuplatform_oidc_issuer": "https://idp.example.com/realms/a",
        "gpuplatform_oidc_client_id": "a",
        "gpuplatform_oidc_client_secret": "b",
        "gpuplatform_oidc_staff_groups": "gpu-ops=operator, a=b=admin",
    }
    found = Environment(**valid).oidc  # type: ignore[arg-type]  # it parses text
    assert found is not None
    assert found.staff_groups == (("gpu-ops", "operator"), ("a=b", "admin"))

    with pytest.raises(ValueError, match="validation error"):
        Environment(**{**valid, **given})  # type: ignore[arg-type]  # as above
