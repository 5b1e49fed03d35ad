"""API tokens in the admin: made, shown once, taken back."""

import re
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from gpuplatform.clock import now
from gpuplatform.tenancy.models import ApiToken
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenancy.services import token_used
from tests.factories.admin_steps import address, choose, confirm, press, told

LIST = "/admin/tenancy/apitoken/"


def _add(client: Client, **changes: object) -> str:
    form = {"tenant": tenant_by_name().pk, "name": "ci", "scopes": ["operator"], **changes}
    answer = client.post(f"{LIST}add/", form)
    assert answer.status_code == 200
    return answer.content.decode()


def made(client: Client, name: str = "ci") -> ApiToken:
    _add(client, name=name)
    return ApiToken.objects.get(name=name)


def test_the_secret_is_shown_once(operator_client: Client) -> None:
    secret = re.findall(r"gpu_[-_A-Za-z0-9]{43}", _add(operator_client))[0]

    assert token_used(secret) == ApiToken.objects.get()
    for path in (LIST, f"{LIST}{ApiToken.objects.get().pk}/change/"):
        page = operator_client.get(path).content.decode()
        assert "ci" in page
        assert secret not in page


def test_a_name_in_use_and_no_scope_are_faults_of_the_form(operator_client: Client) -> None:
    _add(operator_client)

    assert "errornote" in _add(operator_client)
    assert "errornote" in _add(operator_client, name="other", scopes=[])
    assert ApiToken.objects.count() == 1


def test_the_new_token_comes_with_a_line_to_try_it_and_what_it_may(
    operator_client: Client,
) -> None:
    page = told(_add(operator_client, scopes=["user"]))

    secret = re.findall(r"gpu_[-_A-Za-z0-9]{43}", page)[0]
    assert f"curl -H 'Authorization: Bearer {secret}' http://testserver/api/v1/gpu-units" in page
    assert "User: GPU units of the tenant" in page
    assert "Expiresnever" in page


def test_a_token_that_has_expired_already_is_not_made(operator_client: Client) -> None:
    assert "Must lie in the future." in _add(operator_client, expires_at="2020-01-01T00:00")
    assert not ApiToken.objects.exists()


def test_taking_back_asks_first_and_says_which_and_when_it_was_used(
    operator_client: Client,
) -> None:
    token = made(operator_client)

    page = told(choose(operator_client, "revoke", token))

    token.refresh_from_db()
    assert token.revoked_at is None
    assert "Whatever calls the API with 'ci' is refused at once" in page
    assert "It was never used." in page
    ApiToken.objects.update(last_used_at=now() - timedelta(minutes=7))
    assert "It was last used 7 min ago." in told(choose(operator_client, "revoke", token))


def test_taking_several_back_says_how_many_are_in_use(operator_client: Client) -> None:
    tokens = [made(operator_client, name) for name in ("ci", "old")]
    ApiToken.objects.filter(name="ci").update(last_used_at=now() - timedelta(hours=1))
    ApiToken.objects.filter(name="old").update(last_used_at=now() - timedelta(days=2))

    assert "1 token was used in the last day." in told(choose(operator_client, "revoke", *tokens))


def test_confirming_takes_back_for_good_and_is_in_the_log_once(operator_client: Client) -> None:
    token = made(operator_client)
    asked = press(operator_client, "revoke", token)

    page = confirm(operator_client, asked)
    confirm(operator_client, asked)

    token.refresh_from_db()
    assert token.revoked_at is not None
    assert "API token ci: It is taken back" in told(page)
    assert "formaction" not in page
    assert LogEntry.objects.filter(change_message__startswith="Take back:").count() == 1


def test_a_tokens_page_says_who_made_it_and_leads_to_its_tenant(operator_client: Client) -> None:
    token = made(operator_client)

    page = operator_client.get(address(token, "change", token.pk)).content.decode()

    assert "<dt>Made by</dt><dd><bdi>operator</bdi></dd>" in page
    assert "<dt>Expires</dt><dd><bdi>never</bdi></dd>" in page
    assert address(token.tenant, "change", token.tenant.pk) in page
    assert "Admin log" in page


@pytest.mark.usefixtures("db")
def test_a_viewer_makes_none(viewer_client: Client) -> None:
    assert viewer_client.get(f"{LIST}add/").status_code == 403
    assert viewer_client.get(LIST).status_code == 403
