"""API tokens in the admin: creation, one-time display and revocation."""

import re
from datetime import timedelta

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.test import Client
from pytest_django import Settings

from gpuplatform.clock import now
from gpuplatform.tenancy.models import ApiToken, Scope
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenancy.services import token_used
from tests.factories.admin_steps import Page, address, choose, confirm, numbers, press, text_of

LIST = "/admin/tenancy/apitoken/"


def _add(client: Client, **changes: object) -> Page:
    form = {"tenant": tenant_by_name().pk, "name": "ci", "scopes": ["operator"], **changes}
    response = client.post(f"{LIST}add/", form)
    assert response.status_code == 200
    return Page(response)


def created(client: Client, name: str = "ci") -> ApiToken:
    _add(client, name=name)
    return ApiToken.objects.get(name=name)


def test_the_secret_is_shown_once(operator_client: Client) -> None:
    secret = re.findall(r"gpu_[-_A-Za-z0-9]{43}", _add(operator_client))[0]

    assert token_used(secret) == ApiToken.objects.get()
    for path in (LIST, f"{LIST}{ApiToken.objects.get().pk}/change/"):
        page = operator_client.get(path).content.decode()
        assert "ci" in page
        assert secret not in page


def test_a_name_in_use_and_no_scope_are_errors_of_the_form(operator_client: Client) -> None:
    _add(operator_client)

    assert "errornote" in _add(operator_client)
    assert "errornote" in _add(operator_client, name="other", scopes=[])
    assert ApiToken.objects.count() == 1


def test_the_page_of_a_new_token_has_an_example_and_its_scopes(
    operator_client: Client,
) -> None:
    page = text_of(_add(operator_client, scopes=["user"]))

    secret = re.findall(r"gpu_[-_A-Za-z0-9]{43}", page)[0]
    assert f"curl -H 'Authorization: Bearer {secret}' http://testserver/api/v1/me" in page
    assert Scope.USER.label in page
    assert "Expiresnever" in page


def test_outside_development_mode_a_token_is_shown_with_https_only(
    operator_client: Client, settings: Settings
) -> None:
    settings.GPUPLATFORM_DEV = False

    page = text_of(_add(operator_client, scopes=["user"]))

    assert "https://testserver/api/v1/me" in page
    assert "http://" not in page


def test_a_token_that_has_expired_already_is_not_created(operator_client: Client) -> None:
    page = _add(operator_client, expires_at="2020-01-01T00:00")

    assert list(page.context["adminform"].form.errors) == ["expires_at"]
    assert not ApiToken.objects.exists()


def test_a_revocation_is_confirmed_with_name_and_last_use(
    operator_client: Client,
) -> None:
    token = created(operator_client)

    page = choose(operator_client, "revoke", token)

    token.refresh_from_db()
    assert token.revoked_at is None
    assert "'ci'" in page.context["consequence"]
    assert numbers(page.context["consequence"]) == []
    ApiToken.objects.update(last_used_at=now() - timedelta(minutes=7))
    assert numbers(choose(operator_client, "revoke", token).context["consequence"]) == [7]


def test_the_revocation_of_several_shows_how_many_are_in_use(operator_client: Client) -> None:
    tokens = [created(operator_client, name) for name in ("ci", "old")]
    ApiToken.objects.filter(name="ci").update(last_used_at=now() - timedelta(hours=1))
    ApiToken.objects.filter(name="old").update(last_used_at=now() - timedelta(days=2))

    page = choose(operator_client, "revoke", *tokens)

    assert numbers(page.context["consequence"])[:2] == [2, 1]


def test_a_confirmed_revocation_is_final_and_logged_once(operator_client: Client) -> None:
    token = created(operator_client)
    confirmation = press(operator_client, "revoke", token)

    page = confirm(operator_client, confirmation)
    confirm(operator_client, confirmation)

    token.refresh_from_db()
    assert token.revoked_at is not None
    assert page.context["row_actions"] == []
    assert LogEntry.objects.filter(object_id=token.pk, action_flag=CHANGE).count() == 1


def test_a_tokens_page_shows_its_creator_and_links_to_its_tenant(operator_client: Client) -> None:
    token = created(operator_client)

    page = operator_client.get(address(token, "change", token.pk)).content.decode()

    assert "<dt>Created by</dt><dd><bdi>operator</bdi></dd>" in page
    assert "<dt>Expires</dt><dd><bdi>never</bdi></dd>" in page
    assert address(token.tenant, "change", token.tenant.pk) in page
    assert address(token, "history", token.pk) in page


@pytest.mark.usefixtures("db")
def test_a_viewer_creates_none(viewer_client: Client) -> None:
    assert viewer_client.get(f"{LIST}add/").status_code == 403
    assert viewer_client.get(LIST).status_code == 403
