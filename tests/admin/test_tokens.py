"""API tokens in the admin: made, shown once, taken back."""

import re

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from gpuplatform.tenancy.models import ApiToken
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenancy.services import token_used

LIST = "/admin/tenancy/apitoken/"


def _add(client: Client, **changes: object) -> str:
    form = {"tenant": tenant_by_name().pk, "name": "ci", "scopes": ["operator"], **changes}
    answer = client.post(f"{LIST}add/", form)
    assert answer.status_code == 200
    return answer.content.decode()


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


def test_taking_back_is_in_the_log(operator_client: Client) -> None:
    _add(operator_client)
    token = ApiToken.objects.get()

    operator_client.post(LIST, {"action": "revoke", "_selected_action": [token.pk]})

    token.refresh_from_db()
    assert token.revoked_at is not None
    assert LogEntry.objects.filter(change_message__contains="Taken back").exists()


@pytest.mark.usefixtures("db")
def test_a_viewer_makes_none(viewer_client: Client) -> None:
    assert viewer_client.get(f"{LIST}add/").status_code == 403
    assert viewer_client.get(LIST).status_code == 403
